"""Steps by ranks as a heat map: one that is late now and then shows, as does one that always is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from perftui_tui.charts.blocks import LOWER_EIGHTHS, filled_steps
from perftui_tui.look.rows import Row, Span, crop, joined, row
from perftui_tui.look.units import format_ns
from perftui_tui.screens.ranks.bars import LABEL_WIDTH

if TYPE_CHECKING:
    from perftui.facts.ranks.step_grid import StepGrid

FULL_AT = 2.0
"""Times the median at which a cell is full."""

LATE_FROM, SLOW_FROM = 1.25, 2.0
"""Times the median from which a cell is highlighted."""


def step_heat(grid: StepGrid | None, cells: int, height: int) -> list[Row]:
    """A row for each rank, the newest steps at the right, and below them what a cell is."""
    columns = cells - LABEL_WIDTH
    if grid is None or columns < 1 or height < 2:
        return []
    binned = grid.binned(columns)
    shown = range(min(len(grid.ranks), height - 1))
    rows = [_rank(grid.ranks[at], binned[at].tolist()) for at in shown]
    hidden = len(grid.ranks) - len(rows)
    return [crop(line, cells) for line in (*rows, _legend(grid, binned.shape[1], hidden))]


def _rank(number: int, ratios: list[float]) -> Row:
    return row((f"rank {number}".ljust(LABEL_WIDTH), "bold"), *joined([_cell(r) for r in ratios]))


def _cell(ratio: float) -> Span:
    if math.isnan(ratio):
        return (" ", "")
    full = len(LOWER_EIGHTHS) - 1
    block = LOWER_EIGHTHS[max(filled_steps(ratio / FULL_AT, full), 1)]
    style = "chart-bad" if ratio >= SLOW_FROM else "chart-warn" if ratio >= LATE_FROM else "chart"
    return (block, style)


def _legend(grid: StepGrid, columns: int, hidden: int) -> Row:
    steps = grid.ratios.shape[1]
    each = -(-steps // columns)
    what = "a step" if each == 1 else f"the longest of {each:,} steps"
    last = grid.first + steps - 1
    more = f"; and {hidden} more ranks" if hidden else ""
    text = (
        f"{'':{LABEL_WIDTH}}a column is {what}, {grid.first:,} to {last:,}, without waits for "
        f"others; a full block is {FULL_AT:g}x the median of {format_ns(grid.usual)}{more}"
    )
    return row((text, "dim"))
