"""Parts of a whole over time, stacked: which part is in each cell, and the axis of sizes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from perftui_tui.look.format import format_bytes
from perftui_tui.look.rows import Row, Span, joined, row

Int64 = npt.NDArray[np.int64]

BLANK = -1
"""A cell above all parts."""


def stacked(parts: Int64, height: int, top: float) -> Int64:
    """The part in each cell, top row first, ``BLANK`` above them all.

    ``parts`` has a row for each part, the lowest first, and a column for each of the chart; the
    chart goes from 0 to ``top``. A cell has the part that its middle lies in. A column that holds
    anything shows its largest part at least.
    """
    middles = (np.arange(height)[::-1] + 0.5) * (top / height)
    sums = np.cumsum(parts, axis=0)
    cells: Int64 = (sums[:, np.newaxis, :] <= middles[np.newaxis, :, np.newaxis]).sum(axis=0)
    cells[cells == len(parts)] = BLANK
    is_missing = (cells[-1] == BLANK) & (sums[-1] > 0)
    cells[-1] = np.where(is_missing, parts.argmax(axis=0), cells[-1])
    return cells


def row_of(value: float, height: int, top: float) -> int:
    """The row, from the top, of the cell that ``value`` lies in or ends at."""
    filled = -(-value * height // top) if top > 0 else 0
    return height - min(max(int(filled), 1), height)


def highest_of_bins(parts: Int64, columns: int, live: bool) -> Int64:
    """``parts`` in at most ``columns`` columns, each the samples at the highest moment within it.

    While the series grows (``live``) a bin holds a power of two of samples and keeps its place;
    else all samples are spread over the whole width. There is one sample at least.
    """
    count = parts.shape[1]
    if live:
        size = 1
        while -(-count // size) > columns:
            size *= 2
        begin = np.arange(0, count, size)
        end = np.minimum(begin + size, count)
    else:
        edges = np.arange(columns + 1) * count // columns
        begin = np.minimum(edges[:-1], count - 1)
        end = np.maximum(edges[1:], begin + 1)
    level = parts.sum(axis=0)
    pairs = zip(begin.tolist(), end.tolist(), strict=True)
    shown = [first + int(np.argmax(level[first:last])) for first, last in pairs]
    return parts[:, shown]


AXIS_CELLS = 10
"""Room for ``1023 GiB`` and the axis."""

MIDDLE_FROM = 7
"""Rows from which on the middle of an axis has a figure too, where that is asked for."""


def stacked_cells(
    parts: Int64, height: int, top: float, glyphs: Mapping[int, Span]
) -> list[list[Span]]:
    """``stacked`` drawn, top row first: the part with number N as ``glyphs[N]``."""
    drawn = {**glyphs, BLANK: (" ", "")}
    return [[drawn[part] for part in line] for line in stacked(parts, height, top).tolist()]


def with_axis(cells: list[list[Span]], top: float, *, middle: bool = False) -> list[Row]:
    """Rows behind an axis from 0 to ``top`` bytes."""
    height = len(cells)
    labels = {height - 1: "0", 0: format_bytes(top)}
    if middle and height >= MIDDLE_FROM:
        labels[height // 2] = format_bytes(top * (height - height // 2) / height)
    return [row((_axis(labels.get(at, "")), "dim"), *joined(line)) for at, line in enumerate(cells)]


def below_axis(text: str) -> Row:
    """A row of words that begins where the columns do."""
    return row((" " * AXIS_CELLS + text, "dim"))


def _axis(label: str) -> str:
    return f"{label:>{AXIS_CELLS - 1}}" + ("┤" if label else "│")
