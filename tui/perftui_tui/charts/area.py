"""One series, or a part over its whole, as an area of block characters or of braille dots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from perftui_tui.charts.bars import LOWER_EIGHTHS, filled_steps


def over_all_columns(values: Sequence[float], columns: int) -> list[float]:
    """``values`` of a finished series in all ``columns``: few are repeated, many reduced to the
    maximum of each column's share. Nothing for no values."""
    if not values or len(values) >= columns:
        return resample(values, columns) if values else []
    return [values[column * len(values) // columns] for column in range(columns)]


def resample(values: Sequence[float], width: int) -> list[float]:
    """``values`` in ``width`` columns, each the maximum of its share: peaks survive, dips may not.

    Fewer values than columns take one column each at the right, where the newest belongs, with NaN
    before them. NaN stands for a missing value; a column is NaN only if all of its share is.
    """
    count = len(values)
    if count <= width:
        return [math.nan] * (width - count) + list(values)
    edges = [column * count // width for column in range(width + 1)]
    shares = (values[edges[c] : edges[c + 1]] for c in range(width))
    return [max((v for v in share if not math.isnan(v)), default=math.nan) for share in shares]


def column_steps(value: float, low: float, high: float, steps: int) -> int:
    """Steps to fill for ``value``: 0 where it is missing, at least 1 from ``low`` down."""
    if math.isnan(value):
        return 0
    span = high - low
    return max(filled_steps((value - low) / span if span > 0 else 0.0, steps), 1)


def area(values: Sequence[float], width: int, height: int, low: float, high: float) -> list[str]:
    """Rows, top first, of an area chart; NaN is blank, other values are clamped."""
    rows = _fills(values, width, height, low, high, len(LOWER_EIGHTHS) - 1)
    return ["".join(LOWER_EIGHTHS[fill] for fill in row) for row in rows]


def _fills(
    values: Sequence[float], width: int, height: int, low: float, high: float, full: int
) -> Iterator[list[int]]:
    """How far each cell of each row is filled, of ``full`` steps."""
    steps = [column_steps(v, low, high, height * full) for v in resample(values, width)]
    for row in reversed(range(height)):
        yield [min(max(step - row * full, 0), full) for step in steps]


def sparkline(values: Sequence[float], width: int, low: float, high: float) -> str:
    """The one-row ``area``."""
    return area(values, width, 1, low, high)[0]


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


DOTS = 4
"""Dots of a cell from bottom to top."""

_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_FIRST = 0x2800


def braille_area(
    values: Sequence[float], width: int, height: int, low: float, high: float
) -> list[str]:
    """Rows, top first, of ``width`` cells; NaN is blank, other values are clamped.

    More values than two a cell are binned by their maximum, as ``area`` does.
    """
    rows = []
    for dots in _fills(values, 2 * width, height, low, high, DOTS):
        pairs = zip(dots[::2], dots[1::2], strict=True)
        # A blank takes one byte, an empty pattern three.
        cells = (chr(_FIRST + _LEFT[a] + _RIGHT[b]) if a or b else " " for a, b in pairs)
        rows.append("".join(cells))
    return rows
