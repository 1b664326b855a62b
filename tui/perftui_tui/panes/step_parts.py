"""The parts of the mean step one below the other: time, share, and a bar."""

from __future__ import annotations

from perftui_tui.charts.blocks import block_bar
from perftui_tui.look.format import part_of_step, share
from perftui_tui.look.rows import Row, crop, row
from perftui_tui.look.units import format_ns
from perftui_tui.reading.snapshot import Snapshot

NAME_CELLS, TIME_CELLS, SHARE_CELLS = 23, 10, 7
HEADINGS = 1


def step_parts(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """A row for each part in the order of the step, then the whole."""
    breakdown = snapshot.breakdown
    if breakdown is None or not breakdown.mean.mean:
        return [row(("no step has been measured yet", "dim"))]
    whole = breakdown.mean.mean
    head = f"{'part':<{NAME_CELLS}}{'time':>{TIME_CELLS}}{'share':>{SHARE_CELLS}}"
    rows = [row((head, "dim"))]
    room = max(0, cells - NAME_CELLS - TIME_CELLS - SHARE_CELLS - 1)
    for part in breakdown.parts:
        if part.ns:
            figures = f"{part_of_step(part.ns):>{TIME_CELLS}}{share(part.ns, whole):>{SHARE_CELLS}}"
            name = f"{part.name:<{NAME_CELLS}}"
            filled = block_bar(part.ns / whole, room).rstrip()
            rows.append(row(name, figures, " ", (filled, f"part-{part.style}")))
    together = (
        f"{'mean step':<{NAME_CELLS}}{format_ns(whole):>{TIME_CELLS}}{'100 %':>{SHARE_CELLS}}"
    )
    return [crop(each, cells) for each in (*rows, row((together, "bold")))][:height]


def rows_of(snapshot: Snapshot) -> int:
    """How many rows ``step_parts`` takes."""
    breakdown = snapshot.breakdown
    if breakdown is None or not breakdown.mean.mean:
        return 1
    return sum(1 for part in breakdown.parts if part.ns) + HEADINGS + 1
