"""Two or more series as lines of braille dots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from perftui_tui.charts.area import resample

LineRow = list[tuple[str, int]]
"""Runs of text and the series each belongs to; NO_SERIES for blanks."""

NO_SERIES = -1

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of the braille cell by column, then from the top."""

_DASHES = ((1, 1), (4, 2), (3, 1), (6, 3))
"""Period and drawn dots: the first series is solid, the others dashed, to differ uncoloured."""

ASCII_MARKS = "*o+x"


def line_chart(
    series: Sequence[Sequence[float]],
    width: int,
    height: int,
    low: float,
    high: float,
    ascii_only: bool = False,
) -> list[LineRow]:
    """Rows, top first, of ``width`` cells: runs of characters with the series they belong to.

    A cell that several series cross belongs to the last. Values are clamped to the range, NaN
    leaves a hole, and resampling keeps maxima. ``ascii_only`` draws one mark for each series.
    """
    across, down = (1, 1) if ascii_only else (2, 4)
    bits = [[0] * width for _ in range(height)]
    owner = [[NO_SERIES] * width for _ in range(height)]
    for number, values in enumerate(series):
        period, drawn = _DASHES[number % len(_DASHES)]
        for x, top, bottom in _strokes(values, width * across, height * down, low, high):
            if ascii_only or x % period < drawn:
                for y in range(top, bottom + 1):
                    bits[y // down][x // across] |= _DOTS[x % across][y % down]
                    owner[y // down][x // across] = number
    cells = [
        [_glyph(b, o, ascii_only) for b, o in zip(*row, strict=True)]
        for row in zip(bits, owner, strict=True)
    ]
    return [_runs(row, owners) for row, owners in zip(cells, owner, strict=True)]


def _strokes(
    values: Sequence[float], width: int, height: int, low: float, high: float
) -> list[tuple[int, int, int]]:
    """(column, top dot, bottom dot) of a line: each column joins up with the one before."""
    strokes, before = [], None
    for x, value in enumerate(resample(values, width)):
        if math.isnan(value):
            before = None
            continue
        share = (value - low) / (high - low) if high > low else 0.0
        y = round((1 - min(max(share, 0.0), 1.0)) * (height - 1))
        reach = y if before is None or before == y else before + (1 if y > before else -1)
        strokes.append((x, min(y, reach), max(y, reach)))
        before = y
    return strokes


def _glyph(bits: int, owner: int, ascii_only: bool) -> str:
    if not bits:
        return " "
    return ASCII_MARKS[owner % len(ASCII_MARKS)] if ascii_only else chr(0x2800 + bits)


def _runs(cells: Sequence[str], owners: Sequence[int]) -> LineRow:
    pairs = zip(cells, owners, strict=True)
    return [
        ("".join(cell for cell, _ in run), owner)
        for owner, run in groupby(pairs, key=lambda pair: pair[1])
    ]
