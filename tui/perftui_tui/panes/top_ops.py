"""The costliest kernels, or operators by CPU time where there is no GPU."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.trace.text import printable
from perftui_tui.format import milliseconds, share
from perftui_tui.rows import Row, crop, row
from perftui_tui.snapshot import Snapshot

NUMBERS_WIDTH = 16


def top_ops(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """One row for each: name, milliseconds in the window, share."""
    analysis = snapshot.analysis
    if analysis is None:
        words = "no window profiled yet: c profiles one" if snapshot.phase.is_live else "no trace"
        return [row((words, "dim"))]
    if analysis.has_gpu:
        names: Sequence[str] = analysis.kernels.names
        times: list[int] = analysis.kernels.total.tolist()
        title = "GPU time by kernel"
    else:
        names, times = analysis.ops.names, analysis.ops.cpu_self.tolist()
        title = "self CPU time by op"
    whole = sum(times)
    order = sorted(range(len(times)), key=lambda at: -times[at])[: height - 1]
    head = row((f"{title:<{max(0, cells - NUMBERS_WIDTH)}}{'ms':>9} {'share':>6}", "dim"))
    return [crop(head, cells), *(_op(names[at], times[at], whole, cells) for at in order)]


def _op(name: str, ns: int, whole: int, cells: int) -> Row:
    name_width = max(1, cells - NUMBERS_WIDTH)
    text = printable(name)
    name = text if len(text) <= name_width else text[: name_width - 1] + "…"
    return row(f"{name:<{name_width}}", f"{milliseconds(ns):>9} {share(ns, whole):>6}")
