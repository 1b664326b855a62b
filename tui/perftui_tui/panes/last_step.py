"""The last profiled step as strips: what the training did, when each GPU worked, and the gaps."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from perftui.run.columns import phase_name
from perftui_tui.charts.blocks import LOWER_EIGHTHS, filled_steps
from perftui_tui.keys.keymap import hint
from perftui_tui.look.rows import Row, Span, crop, joined, row
from perftui_tui.look.units import format_ns
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.step_breakdown import name_within, style_of

if TYPE_CHECKING:
    from perftui.analysis.timeline.measure import BusyColumns, StepColumns

NAME_WIDTH = 7
"""``GPU 0``, ``host``."""

LOW_SHARE = 0.5
"""Share of a column below which the GPU mostly waits in it."""


def last_step(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """A row of phases, one for each device, and one or two that name the longest gaps."""
    columns = cells - NAME_WIDTH
    step = _columns(snapshot, columns)
    if step is None:
        return [crop(row((_why_absent(snapshot), "dim")), cells)]
    gap_rows = 1 if step.gaps else 0
    devices = step.busy[: max(1, height - 1 - gap_rows)]
    rows = [_phases(step), *(_busy(one) for one in devices)]
    if gap_rows and len(rows) < height:
        rows.append(_gaps(step, columns))
    return [crop(line, cells) for line in rows[:height]]


def _columns(snapshot: Snapshot, columns: int) -> StepColumns | None:
    if snapshot.analysis is None:
        return None
    from perftui.analysis.timeline.measure import step_columns

    return step_columns(snapshot.analysis, columns)


def _why_absent(snapshot: Snapshot) -> str:
    if snapshot.analysis is not None:
        return "the profiled window marks no step"
    asking = hint("no window profiled yet: {app.capture} profiles one")
    return asking if snapshot.phase.is_live else "no step was profiled"


def last_step_title(snapshot: Snapshot) -> str:
    """``Last profiled step: 31 ms``."""
    steps = snapshot.analysis.steps if snapshot.analysis else ()
    if not steps:
        return "Last profiled step"
    newest = max(steps, key=lambda one: one.start)
    return f"Last profiled step: {format_ns(newest.duration)}"


def _named(name: str) -> Span:
    return (name.ljust(NAME_WIDTH), "bold")


def _phases(step: StepColumns) -> Row:
    """The phases as coloured parts with their names, as far as they have room."""
    spans: list[Span] = []
    for phase, columns in groupby(step.phases):
        width = len(list(columns))
        if not phase:
            spans.append((" " * width, ""))
            continue
        name = name_within(phase_name(phase), width - 1)
        text = f"▏{name}" if width > 1 else "▏"
        spans.append((text.ljust(width), f"part-{style_of(phase)}"))
    return row(_named("step"), *spans)


def _busy(busy: BusyColumns) -> Row:
    """How busy a device was in each column, the columns in which it mostly waited highlighted."""
    name = "host" if busy.device < 0 else f"GPU {busy.device}"
    full = len(LOWER_EIGHTHS) - 1
    cells = [
        (LOWER_EIGHTHS[filled_steps(share, full)], "chart-bad" if share < LOW_SHARE else "chart")
        for share in busy.shares
    ]
    return row(_named(name), *joined(cells))


def _gaps(step: StepColumns, columns: int) -> Row:
    """The longest gaps below where they are, each with length and cause, where there is room."""
    taken: dict[int, str] = {}
    for gap in step.gaps:
        text = f"└{format_ns(gap.duration)} {gap.cause.value}"
        begin, end = max(gap.start, step.step.start), min(gap.end, step.step.end)
        at = step.column_of((begin + end) // 2)
        if at + len(text) <= columns and _is_free(taken, at, len(text)):
            taken[at] = text
    line = ""
    for at, text in sorted(taken.items()):
        line = f"{line.ljust(at)}{text}"
    return row(_named("gaps"), (line, "warn"))


def _is_free(taken: dict[int, str], at: int, length: int) -> bool:
    """Whether so many columns from ``at`` on are at least two away from all that are taken."""
    end = at + length + 2
    return all(end <= other or at >= other + len(words) + 2 for other, words in taken.items())
