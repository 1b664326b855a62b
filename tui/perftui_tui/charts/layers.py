"""Two series, one a part of the other, as an area under a hatched one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perftui_tui.charts.area import column_steps
from perftui_tui.charts.blocks import LOWER_EIGHTHS

HATCH = "░"
"""Fills what the outer series has beyond the inner one, without needing colour."""


def layers(
    inner: Sequence[float], outer: Sequence[float], height: int, top: float
) -> list[list[tuple[str, bool]]]:
    """Rows, top first, of cells from 0 to ``top``; one column for each value.

    A cell is its character and whether it belongs to the inner series. Where both meet in a cell it
    goes to the one that fills more of it: a block above which it is blank would look like a gap.
    """
    full = len(LOWER_EIGHTHS) - 1
    steps = [column_steps(value, 0, top, height * full) for value in inner]
    cells = [
        0 if math.isnan(value) else column_steps(value, 0, top, height) if height > 1 else 1
        for value in outer
    ]
    rows = []
    for number in reversed(range(height)):
        line = []
        for filled, reached in zip(steps, cells, strict=True):
            part = min(max(filled - number * full, 0), full)
            if number < reached and 0 < part < full:
                part = full if 2 * part >= full else 0
            if part:
                line.append((LOWER_EIGHTHS[part], True))
            else:
                line.append((HATCH if number < reached else " ", False))
        rows.append(line)
    return rows
