"""A table of columns as rows of text: order, filter, widths, cells and CSV; kinds of columns."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len

from perftui import format as fmt
from perftui.analysis.kernels.category import TensorCores, TensorCoreTime
from perftui.trace.model import Int64
from perftui_tui.charts.cells import block_bar
from perftui_tui.look.format import MISSING, format_count, format_ns, format_percent
from perftui_tui.look.rows import crop, plain

LEFT = "left"
RIGHT = "right"
GAP = 1
"""Blank cells between columns."""

MOST_SPARE = 50
"""Cells by which a bar grows at most: a longer one tells nothing more."""


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
    bar: Callable[[int, int], str] | None = None
    """Draws a row in so many cells. Such a column keeps its colours on the selected row, is sorted
    by the one before it and stays out of files."""
    fewest: int = 24
    """Cells that the flexible column keeps while another one can be left out."""
    longest: int = 0
    """Cells of the longest text of the flexible column, its title and sum too: what it needs less
    than it could have goes to the bar. 0 where that is not known."""
    middle: bool = False
    """Whether text that is too long loses its middle, not its end."""
    exact: Callable[[int], object] | None = None
    """Value of a row in a saved table; None: its text."""
    unit: str = ""
    """Unit of ``exact``, for the title in a file."""

    @cached_property
    def ranks(self) -> Int64:
        """Place of each row in the order of its words, in any case; equal words share one."""
        folded = [str(key).casefold() for key in self.keys]
        places = {word: place for place, word in enumerate(sorted(set(folded)))}
        return np.array([places[word] for word in folded], np.int64)


@dataclass(frozen=True, eq=False)
class TableData:
    """Columns over the same rows. ``names`` identify the rows, and are what a filter searches."""

    names: Sequence[str]
    columns: tuple[Column, ...]
    sort_column: int = 0
    descending: bool = True
    empty: str = "nothing recorded"
    """Why there are no rows."""
    ids: Sequence[Hashable] = ()
    """Identify rows whose names are not their own; empty where ``names`` do."""
    parents: Int64 | None = None
    """The row above each in a tree, -1 at the top; None for a flat table. Rows below one stay below
    it in any order, and are not filtered here. A row stands behind the one above it."""

    def __len__(self) -> int:
        return len(self.names)

    def id_of(self, row: int) -> Hashable:
        return self.ids[row] if self.ids else self.names[row]

    @cached_property
    def folded(self) -> list[str]:
        """Names as a filter compares them, with the text that stands for them."""
        shown = self.columns[0] if self.columns else None
        if shown is None or not shown.middle:
            return [name.casefold() for name in self.names]
        return [f"{name}\n{shown.text(row)}".casefold() for row, name in enumerate(self.names)]


EMPTY = TableData((), ())


def ordered_rows(data: TableData, column: int, descending: bool, needle: str = "") -> Int64:
    """Rows whose name contains ``needle`` (any case), sorted by a column; equal keys keep order."""
    keys = _sort_keys(data, column, descending)
    if data.parents is not None:
        below: dict[int, list[int]] = {}
        for row in np.argsort(keys, kind="stable").tolist():
            below.setdefault(int(data.parents[row]), []).append(row)
        ordered: list[int] = []
        waiting = below.get(-1, [])[::-1]
        while waiting:
            ordered.append(waiting.pop())
            waiting += below.get(ordered[-1], [])[::-1]
        return np.asarray(ordered, np.int64)
    low = needle.casefold()
    hits = [row for row, name in enumerate(data.folded) if low in name] if needle else None
    rows = np.arange(len(data)) if hits is None else np.asarray(hits, np.int64)
    return rows[np.argsort(keys[rows], kind="stable")]


def _sort_keys(
    data: TableData, column: int, descending: bool
) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    if not data.columns:
        return np.zeros(len(data), np.int64)
    chosen = data.columns[column]
    keys = chosen.keys if isinstance(chosen.keys, np.ndarray) else chosen.ranks
    return -keys if descending else keys


def shown_columns(columns: Sequence[Column], width: int) -> list[int]:
    """Columns that fit ``width`` while the flexible one keeps its fewest cells, in order."""
    shown = list(range(len(columns)))
    flexible = max((column.fewest for column in columns if not column.width), default=0)
    while _needed(columns, shown, flexible) > width:
        spare = [index for index in shown if columns[index].optional]
        if not spare:
            break
        shown.remove(max(spare, key=lambda index: columns[index].optional))
    return shown


def _needed(columns: Sequence[Column], shown: Sequence[int], flexible: int) -> int:
    return sum((columns[index].width or flexible) + GAP for index in shown) - GAP


def column_widths(columns: Sequence[Column], shown: Sequence[int], width: int) -> list[int]:
    """Cells of each shown column; the flexible one has what the others leave, and a bar what that
    one does not need."""
    rest = width - _needed(columns, shown, 0)
    longest = max((columns[index].longest for index in shown), default=0)
    has_bar = any(columns[index].bar is not None for index in shown)
    spare = min(max(0, rest - longest), MOST_SPARE) if longest and has_bar else 0
    widths = [columns[index].width or max(rest - spare, 1) for index in shown]
    bars = (columns[index].bar is not None for index in shown)
    return [cells + spare * is_bar for cells, is_bar in zip(widths, bars, strict=True)]


def fit(text: str, width: int, align: str, *, middle: bool = False) -> str:
    """``text`` in exactly ``width`` cells; of a longer one an ellipsis replaces the end, or the
    ``middle``."""
    if middle and cell_len(text) == len(text):
        text = fmt.middle(text, width)
    shown = plain(crop(((text, ""),), width))
    blank = " " * (width - cell_len(shown))
    return blank + shown if align == RIGHT else shown + blank


def column_at(widths: Sequence[int], x: int) -> int | None:
    """The shown column at cell ``x``; a gap belongs to the column before it."""
    ends = itertools.accumulate(width + GAP for width in widths)
    return next((position for position, end in enumerate(ends) if x < end), None)


def csv_text(data: TableData, order: Int64) -> str:
    """All columns of the rows in ``order``: whole ns, shares as fractions, unknown empty."""
    columns = [column for column in data.columns if column.bar is None]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([f"{c.title} ({c.unit})" if c.unit else c.title for c in columns])
    for row in order.tolist():
        writer.writerow([_value(column, row) for column in columns])
    return text.getvalue()


def _value(column: Column, row: int) -> object:
    if column.exact is not None:
        value = column.exact(row)
        return "" if value is None else value
    return column.keys[row] if isinstance(column.keys[row], str) else column.text(row).strip()


def folder_for(target: Path) -> Path:
    """The folder for saved tables: in the run, or where the command was given."""
    return target / "tables" if target.is_dir() else Path.cwd()


def save_new(text: str, folder: Path, stem: str, ending: str = ".csv") -> Path:
    """Write a file that was not there: ``stem.csv``, else ``stem-2.csv`` and so on.

    Raises OSError where it cannot be written.
    """
    folder.mkdir(exist_ok=True, mode=0o700)
    for number in itertools.count(1):
        path = folder / f"{stem}{'' if number == 1 else f'-{number}'}{ending}"
        try:
            file = path.open("x", encoding="utf-8", newline="")
        except FileExistsError:
            continue
        with file:
            file.write(text)
        return path
    raise AssertionError("there is always one more number")


class Texts(Sequence[str]):
    """Text made when asked for: a hundred thousand rows at once would block for seconds."""

    def __init__(self, count: int, make: Callable[[int], str]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...
    def __getitem__(self, row: int | slice) -> str | Sequence[str]:
        if isinstance(row, slice):
            return [self._make(at) for at in range(self._count)[row]]
        return self._make(range(self._count)[row])


TIME_WIDTH = 10
MARK = 2
"""A blank and the mark of the order behind the title of the column it is sorted by."""

_MEASURED = 2_000
"""Names whose cells are counted: in some milliseconds."""


def name_column(title: str, names: Sequence[str], things: str) -> Column:
    """Names, with how many ``things`` (a plural in s) are shown, and how many there are; a long one
    keeps its end, as of forward and backward only that differs."""
    count = len(names)

    def total(rows: Int64) -> str:
        shown, every = format_count(len(rows)), format_count(count)
        what = things.removesuffix("s") if count == 1 else things
        return f"{every} {what}" if len(rows) == count else f"{shown} of {every} {what}"

    longest = 0
    if count <= _MEASURED:
        sums = (total(np.arange(count - 1)), total(np.arange(count)))
        longest = max(map(cell_len, (*names, title + " " * MARK, *sums)))
    return Column(
        title, names, names.__getitem__, align=LEFT, total=total, middle=True, longest=longest
    )


def text_column(
    title: str, texts: Sequence[str], width: int, optional: int, align: str = LEFT
) -> Column:
    """A column of short text."""
    wide = max(width, len(title) + MARK)
    return Column(title, texts, texts.__getitem__, wide, align=align, optional=optional)


def count_column(title: str, counts: Int64, *, summed: bool = True) -> Column:
    """A number of things."""
    return Column(
        *(title, counts, lambda row: format_count(int(counts[row])), 8),
        total=(lambda rows: format_count(int(counts[rows].sum()))) if summed else None,
        optional=1,
        exact=lambda row: int(counts[row]),
    )


def time_column(
    title: str, times: Int64, optional: int = 0, *, summed: Int64 | None = None
) -> Column:
    """Durations; ``summed`` is what to add up: the same where rows do not overlap."""
    return Column(
        title,
        times,
        lambda row: format_ns(int(times[row])),
        width=max(TIME_WIDTH, len(title) + MARK),
        total=None if summed is None else lambda rows: format_ns(int(summed[rows].sum())),
        optional=optional,
        exact=lambda row: int(times[row]),
        unit="ns",
    )


def known_column(
    title: str,
    values: Sequence[float | None],
    show: Callable[[float], str],
    width: int,
    optional: int = 0,
    unit: str = "",
) -> Column:
    """Values as ``show`` has them; a dash where nothing is known."""
    keys = np.array([-1.0 if value is None else value for value in values])

    def text(row: int) -> str:
        value = values[row]
        return MISSING if value is None else show(value)

    wide, exact = max(width, len(title) + MARK), values.__getitem__
    return Column(title, keys, text, wide, optional=optional, exact=exact, unit=unit)


def percent_column(title: str, values: Sequence[float | None], optional: int) -> Column:
    """Per cent as they are given."""
    return known_column(title, values, "{:.0f} %".format, 6, optional, "%")


def tensor_column(time: TensorCoreTime) -> Column:
    """The share of own device time on tensor cores, by names of kernels; ``≥`` where some may use
    them too, a dash for work that they do not do."""

    def of(rows: Int64) -> str:
        parts = (time.used, time.unused, time.unknown, time.own)
        used, unused, unknown, own = (int(part[rows].sum()) for part in parts)
        if not used + unused:
            return TensorCores.UNKNOWN.value if unknown else MISSING
        return f"{'≥ ' if unknown else ''}{format_percent(used / own)}"

    is_known = (time.used + time.unused > 0) & (time.own > 0)
    shares = np.where(is_known, time.used / np.maximum(time.own, 1), -1.0)
    return Column(
        "tensor",
        shares,
        lambda row: of(np.array([row])),
        width=8,
        total=of,
        optional=6,
        exact=lambda row: float(shares[row]) if is_known[row] else None,
    )


def share_columns(
    values: Int64, whole: int, *, parts: Int64 | None = None
) -> tuple[Column, Column]:
    """Each value as a part of ``whole``, in figures and as a bar; ``parts`` are what adds up."""
    added = values if parts is None else parts

    def fraction(value: int) -> float:
        return value / whole if whole else 0.0

    figures = Column(
        "share",
        values,
        lambda row: format_percent(fraction(int(values[row]))),
        width=7,
        total=lambda rows: format_percent(fraction(int(added[rows].sum()))),
        exact=lambda row: fraction(int(values[row])),
    )
    bar = Column(
        "",
        values,
        lambda row: "",  # noqa: ARG005 - it is drawn
        width=10,
        align=LEFT,
        bar=lambda row, width: block_bar(fraction(int(values[row])), width),
        optional=2,
    )
    return figures, bar
