"""Bins that stay where they are while a series grows, so that a chart does not shimmer."""

from __future__ import annotations

import math
from collections.abc import Sequence


def steady_bins(values: Sequence[float], first: int, columns: int) -> tuple[float, ...]:
    """``values`` in exactly ``columns`` bins, from the left; NaN where the series has not come to.

    ``first`` is the number of the first value in the whole series. A bin holds a power of two of
    values, begins at a multiple of its size in the whole series, and is their maximum. One more
    value then changes one column, until the bins are full and their size doubles; bins that
    followed the end of the series would change every column each second, and over SSH each changed
    row costs bytes.
    """
    if not values or columns < 1:
        return (math.nan,) * max(0, columns)
    size = 1
    while (first + len(values) - 1) // size - first // size >= columns:
        size *= 2
    bins = [math.nan] * columns
    origin = first // size
    for number, value in enumerate(values, first):
        at = number // size - origin
        bins[at] = value if math.isnan(bins[at]) else max(bins[at], value)
    return tuple(bins)
