"""The costliest kernels, or operators by CPU time where there is no GPU."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.format import middle
from perftui.trace.text import printable
from perftui_tui.keys.own_keys import hint
from perftui_tui.look.format import format_ns, share
from perftui_tui.look.rows import Row, crop, row
from perftui_tui.reading.snapshot import Snapshot

NUMBERS_WIDTH = 16


def top_ops(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """Kernels where a GPU was recorded, else operators."""
    analysis = snapshot.analysis
    draw = kernels if analysis is not None and analysis.has_gpu else operators
    return draw(snapshot, cells, height)


def kernels(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """One row for each kernel, costliest first: name, time in the window, share."""
    analysis = snapshot.analysis
    if analysis is None:
        return _no_window(snapshot)
    table = analysis.kernels
    return _ranking("GPU time, by kernel", table.short_names, table.total.tolist(), cells, height)


def operators(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """The top operators, by the GPU time they launched, else by their own CPU time."""
    analysis = snapshot.analysis
    if analysis is None:
        return _no_window(snapshot)
    ops = analysis.ops
    on_device = bool(ops.device_self.sum())
    times = (ops.device_self if on_device else ops.cpu_self).tolist()
    title = "GPU time, by operator" if on_device else "own CPU, by operator"
    return _ranking(title, ops.names, times, cells, height)


def _no_window(snapshot: Snapshot) -> list[Row]:
    asking = hint("no window profiled yet: {app.capture} profiles one")
    text = asking if snapshot.phase.is_live else "no trace"
    return [row((text, "dim"))]


def _ranking(
    title: str, names: Sequence[str], times: Sequence[int], cells: int, height: int
) -> list[Row]:
    whole = sum(times)
    order = sorted(range(len(times)), key=lambda at: -times[at])[: height - 1]
    room = max(0, cells - NUMBERS_WIDTH)
    head = row((f"{title[:room]:<{room}}{'time':>9} {'share':>6}", "dim"))
    width = max(1, room)
    return [
        crop(head, cells),
        *(
            row(
                f"{middle(printable(names[at]), width):<{width}}",
                f"{format_ns(times[at]):>9} {share(times[at], whole):>6}",
            )
            for at in order
        ),
    ]
