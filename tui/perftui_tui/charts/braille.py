"""One series as a filled area of braille dots: two values a cell, twice as long a history."""

from __future__ import annotations

from collections.abc import Sequence

from perftui_tui.charts.area import column_steps, resample

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
    steps = [column_steps(v, low, high, height * DOTS) for v in resample(values, 2 * width)]
    floors = [line * DOTS for line in reversed(range(height))]
    return ["".join(_cells(steps, floor)) for floor in floors]


def _cells(steps: Sequence[int], floor: int) -> list[str]:
    """One row, of which ``floor`` dots lie below."""
    dots = [min(max(step - floor, 0), DOTS) for step in steps]
    pairs = zip(dots[::2], dots[1::2], strict=True)
    return [_cell(left, right) for left, right in pairs]


def _cell(left: int, right: int) -> str:
    # A blank takes one byte, an empty pattern three.
    return chr(_FIRST + _LEFT[left] + _RIGHT[right]) if left or right else " "
