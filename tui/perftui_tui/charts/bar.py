"""A whole and its parts as one bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perftui_tui.charts.units import format_ns

FILLS = "█▓▒░▚▞▤▥"
"""One for each part in turn: neighbours differ without colour."""

ASCII_FILLS = "#=+-:.*o"


@dataclass(frozen=True)
class BarSegment:
    """One part of a stacked bar and the cells it got.

    ``cells`` is 0 for a part of value 0, and for the smallest parts of a bar too narrow to give
    each a cell; those are for the caller to list in words.
    """

    label: str
    value: int
    start: int
    cells: int


def stacked_bar(parts: Sequence[tuple[str, int]], width: int) -> tuple[BarSegment, ...]:
    """Segments, in the order of ``parts``, whose cells sum to exactly ``width``.

    Cells follow the values by largest remainder; every non-zero part has at least one while there
    are cells enough. With nothing to show (all values 0, or no width) all cells are 0.
    Raises ValueError for a negative value.
    """
    values = [value for _, value in parts]
    if any(value < 0 for value in values):
        raise ValueError(f"parts of a bar cannot be negative: {values}")
    segments, start = [], 0
    for (label, value), cells in zip(parts, apportion(values, max(width, 0)), strict=True):
        segments.append(BarSegment(label, value, start, cells))
        start += cells
    return tuple(segments)


def apportion(values: Sequence[int], cells: int) -> list[int]:
    """``cells`` shared in proportion to ``values``: at least one for each non-zero value.

    Where there are fewer cells than non-zero values, the largest values get one each.
    """
    largest = sorted((i for i, v in enumerate(values) if v > 0), key=lambda i: -values[i])
    shares = [0] * len(values)
    for index in largest[:cells]:
        shares[index] = 1
    spare = cells - sum(shares)
    if spare == 0 or not largest:
        return shares
    return _share_spare(values, shares, cells)


def _share_spare(values: Sequence[int], shares: list[int], cells: int) -> list[int]:
    """Give what is left to the parts furthest below their exact share, one cell at a time."""
    total = sum(values)
    exact = [value * cells for value in values]
    for index, value in enumerate(exact):
        shares[index] = max(shares[index], value // total)
    while (excess := sum(shares) - cells) != 0:
        step = -1 if excess > 0 else 1
        movable = [i for i, v in enumerate(values) if v > 0 and shares[i] + step >= 1]
        best = max(movable, key=lambda i: step * (exact[i] - shares[i] * total))
        shares[best] += step
    return shares


def bar_text(segments: Sequence[BarSegment], fills: str = FILLS) -> str:
    """The bar itself, each part in the next of ``fills``."""
    return "".join(fills[i % len(fills)] * part.cells for i, part in enumerate(segments))


def label_rows(
    segments: Sequence[BarSegment], format_value: Callable[[int], str] = format_ns
) -> tuple[list[str], tuple[BarSegment, ...]]:
    """Two rows to go under the bar, names then values, and the non-zero parts that did not fit.

    A label is placed only where its whole name and value fit under its own part.
    """
    width = sum(part.cells for part in segments)
    names, values = [" "] * width, [" "] * width
    left_out = []
    for part in (part for part in segments if part.value > 0):
        value = format_value(part.value)
        if max(len(part.label), len(value)) < part.cells:
            names[part.start : part.start + len(part.label)] = part.label
            values[part.start : part.start + len(value)] = value
        else:
            left_out.append(part)
    return ["".join(names), "".join(values)], tuple(left_out)
