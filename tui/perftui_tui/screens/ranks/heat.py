"""Steps of each rank as columns: a rank that is late now and then shows, as does one that always
is. A heat map where each has one row, a chart of its own where there is room for more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from perftui_tui.charts.blocks import LOWER_EIGHTHS, filled_steps
from perftui_tui.look.rows import Row, Span, crop, joined, row
from perftui_tui.look.units import format_ns
from perftui_tui.screens.ranks.bars import LABEL_WIDTH

if TYPE_CHECKING:
    from perftui.facts.ranks.rank_table import StepGrid

FULL_AT = 2.0
"""Times the median at which a cell is full."""

LATE_FROM, SLOW_FROM = 1.25, 2.0
"""Times the median from which a cell is highlighted."""


SPACED_FROM = 3
"""Rows for a rank from which on one of them is left empty."""

TALLEST = 12
"""Rows for a rank beyond which more show nothing new."""


def step_heat(grid: StepGrid | None, cells: int, height: int) -> list[Row]:
    """As many rows for each rank as fit in ``height``, the newest steps at the right, and below
    them what a column is."""
    room = cells - LABEL_WIDTH
    if grid is None or room < 1 or height < 2:
        return []
    binned = grid.binned(room)
    wide = room // binned.shape[1]
    tall = min(max((height - 1) // len(grid.ranks), 1), TALLEST)
    shown = range(min(len(grid.ranks), height - 1))
    rows = [line for at in shown for line in _rank(grid.ranks[at], binned[at].tolist(), wide, tall)]
    hidden = len(grid.ranks) - len(shown)
    return [crop(line, cells) for line in (*rows, _legend(grid, binned.shape[1], hidden))]


def _rank(number: int, ratios: list[float], wide: int, tall: int) -> list[Row]:
    """A column of ``wide`` cells for each ratio; the name stands beside the lowest row."""
    columns = [_column(ratio, wide, tall) for ratio in ratios]
    lines = [joined(list(cells)) for cells in zip(*columns, strict=True)]
    names = [""] * (tall - 1) + [f"rank {number}"]
    return [
        row((name.ljust(LABEL_WIDTH), "bold"), *line)
        for name, line in zip(names, lines, strict=True)
    ]


def _column(ratio: float, wide: int, tall: int) -> list[Span]:
    """From the top down. Where a rank has rows enough one stays empty, between it and the next."""
    if math.isnan(ratio):
        return [(" " * wide, "")] * tall
    style = "chart-bad" if ratio >= SLOW_FROM else "chart-warn" if ratio >= LATE_FROM else "chart"
    full = len(LOWER_EIGHTHS) - 1
    drawn = tall if tall < SPACED_FROM else tall - 1
    filled = max(filled_steps(ratio / FULL_AT, drawn * full), 1)
    levels = [min(max(filled - below * full, 0), full) for below in range(tall)]
    return [(LOWER_EIGHTHS[level] * wide, style) for level in reversed(levels)]


def _legend(grid: StepGrid, columns: int, hidden: int) -> Row:
    steps = grid.ratios.shape[1]
    each = -(-steps // columns)
    what = "a step" if each == 1 else f"the longest of {each:,} steps"
    last = grid.first + steps - 1
    more = f"; and {hidden} more ranks" if hidden else ""
    text = (
        f"{'':{LABEL_WIDTH}}a column is {what}, {grid.first:,} to {last:,}, without waits for "
        f"others; a full one is {FULL_AT:g}x the median of {format_ns(grid.usual)}{more}"
    )
    return row((text, "dim"))
