"""A table of columns as rows of text: order, filter, widths and cells, without a screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len, set_cell_size

from perftui.trace.model import Int64

LEFT = "left"
RIGHT = "right"
GAP = 1
"""Blank cells between columns."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column: what it sorts by and how a row of it reads."""

    title: str
    keys: npt.NDArray[np.int64] | npt.NDArray[np.float64] | Sequence[str]
    text: Callable[[int], str]
    width: int = 0
    """Cells; 0 takes what the others leave (one column only)."""
    align: str = RIGHT
    total: Callable[[Int64], str] | None = None
    """Text under the column for the rows that are shown; None where a sum means nothing."""
    optional: int = 0
    """On a narrow screen the column with the highest number goes first; 0 always stays."""


@dataclass(frozen=True, eq=False)
class TableData:
    """Columns over the same rows. ``names`` identify the rows, and are what a filter searches."""

    names: Sequence[str]
    columns: tuple[Column, ...]
    sort_column: int = 0
    descending: bool = True
    empty: str = "nothing recorded"
    """Says why there are no rows."""

    def __len__(self) -> int:
        return len(self.names)


EMPTY = TableData((), ())


def ordered_rows(data: TableData, column: int, descending: bool, needle: str = "") -> Int64:
    """Rows whose name contains ``needle`` (any case), sorted by a column; equal keys keep order."""
    rows = matching_rows(data.names, needle)
    keys = data.columns[column].keys if data.columns else np.zeros(0, np.int64)
    if isinstance(keys, np.ndarray):
        chosen = -keys[rows] if descending else keys[rows]
        return rows[np.argsort(chosen, kind="stable")]
    words = sorted(rows.tolist(), key=lambda row: keys[row].casefold(), reverse=descending)
    return np.asarray(words, np.int64)


def matching_rows(names: Sequence[str], needle: str) -> Int64:
    """Rows whose name contains ``needle``, in any case."""
    if not needle:
        return np.arange(len(names), dtype=np.int64)
    low = needle.casefold()
    return np.asarray([i for i, name in enumerate(names) if low in name.casefold()], np.int64)


def shown_columns(columns: Sequence[Column], width: int, flexible: int = 24) -> list[int]:
    """Columns that fit ``width`` while the flexible one keeps ``flexible`` cells, in order."""
    shown = list(range(len(columns)))
    while _needed(columns, shown, flexible) > width:
        spare = [index for index in shown if columns[index].optional]
        if not spare:
            break
        shown.remove(max(spare, key=lambda index: columns[index].optional))
    return shown


def _needed(columns: Sequence[Column], shown: Sequence[int], flexible: int) -> int:
    return sum((columns[index].width or flexible) + GAP for index in shown) - GAP


def column_widths(columns: Sequence[Column], shown: Sequence[int], width: int) -> list[int]:
    """Cells of each shown column; the flexible one takes what is left, at least one cell."""
    rest = width - _needed(columns, shown, 0)
    return [columns[index].width or max(rest, 1) for index in shown]


def fit(text: str, width: int, align: str) -> str:
    """``text`` in exactly ``width`` cells, cut with an ellipsis where it is longer."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 1 else "…" * width
    blank = " " * (width - length)
    return blank + text if align == RIGHT else text + blank


def row_text(texts: Sequence[str], widths: Sequence[int], aligns: Sequence[str]) -> str:
    """Cells of one row, joined."""
    cells = (fit(*cell) for cell in zip(texts, widths, aligns, strict=True))
    return (" " * GAP).join(cells)


def column_at(widths: Sequence[int], x: int) -> int | None:
    """Which of the shown columns is at cell ``x``; a gap belongs to the column before it."""
    start = 0
    for position, width in enumerate(widths):
        if start <= x < start + width + GAP:
            return position
        start += width + GAP
    return None
