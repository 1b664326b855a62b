"""One series as an area of block characters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perftui_tui.charts.blocks import LOWER_EIGHTHS, filled_steps


def resample(values: Sequence[float], width: int) -> list[float]:
    """``values`` in ``width`` columns, each the maximum of its share: peaks survive, dips may not.

    Fewer values than columns take one column each at the right, where the newest belongs, with NaN
    before them. NaN stands for a missing value; a column is NaN only if all of its share is.
    """
    count = len(values)
    if count <= width:
        return [math.nan] * (width - count) + list(values)
    edges = [column * count // width for column in range(width + 1)]
    return [_highest(values[edges[c] : edges[c + 1]]) for c in range(width)]


def _highest(values: Sequence[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def column_steps(value: float, low: float, high: float, steps: int) -> int:
    """Steps of ``steps`` to fill for ``value``; 0 only where it is missing.

    A value at or below ``low`` fills one step, so that a zero differs from a hole in the data.
    """
    if math.isnan(value):
        return 0
    span = high - low
    return max(filled_steps((value - low) / span if span > 0 else 0.0, steps), 1)


def area(values: Sequence[float], width: int, height: int, low: float, high: float) -> list[str]:
    """Rows, top first, of an area chart ``width`` by ``height`` from ``low`` to ``high``.

    Values outside the range are clamped; NaN is blank.
    """
    full = len(LOWER_EIGHTHS) - 1
    steps = [column_steps(v, low, high, height * full) for v in resample(values, width)]
    floors = [row * full for row in reversed(range(height))]
    return [
        "".join(LOWER_EIGHTHS[min(max(step - floor, 0), full)] for step in steps)
        for floor in floors
    ]


def sparkline(values: Sequence[float], width: int, low: float, high: float) -> str:
    """The one-row ``area``."""
    return area(values, width, 1, low, high)[0]
