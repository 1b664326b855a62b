"""How often values fall where."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perftui_tui.charts.area import area
from perftui_tui.charts.blocks import LOWER_EIGHTHS


def bin_counts(values: Sequence[float], bins: int, low: float, high: float) -> list[int]:
    """How many of ``values`` fall in each of ``bins`` equal bins of ``low`` to ``high``.

    Values outside count in the first or last bin, so the counts sum to the number of values that
    are not NaN. Where ``high`` is not above ``low`` everything falls in the first bin.
    """
    counts = [0] * bins
    span = high - low
    for value in values:
        if not math.isnan(value):
            # Clamped before the division: by a span of 1e-311 it would overflow.
            inside = min(max(value - low, 0.0), span) / span if span > 0 else 0.0
            counts[min(int(inside * bins), bins - 1)] += 1
    return counts


def histogram(
    values: Sequence[float],
    width: int,
    height: int,
    low: float,
    high: float,
    ramp: str = LOWER_EIGHTHS,
) -> list[str]:
    """Rows, top first: one bin a column, the fullest as high as the chart, empty bins blank."""
    counts = bin_counts(values, width, low, high)
    return area(
        [count or math.nan for count in counts], width, height, 0, max(max(counts), 1), ramp
    )
