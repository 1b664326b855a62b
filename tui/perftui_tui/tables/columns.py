"""The kinds of columns that tables are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

import numpy as np
from rich.cells import cell_len

from perftui.analysis.kernels.category import TensorCores, TensorCoreTime
from perftui.trace.model import Int64
from perftui_tui.charts.bars import block_bar
from perftui_tui.look.format import MISSING, format_count, format_ns, format_percent
from perftui_tui.tables.rows import LEFT, Column


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

SHARE_WIDTH = 7
_BAR = 10


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

    def text(used: int, unused: int, unknown: int, own: int) -> str:
        if not used + unused:
            return TensorCores.UNKNOWN.value if unknown else MISSING
        return f"{'≥ ' if unknown else ''}{format_percent(used / own)}"

    def of(rows: Int64) -> str:
        return text(*(int(part[rows].sum()) for part in columns))

    columns = (time.used, time.unused, time.unknown, time.own)
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
        width=SHARE_WIDTH,
        total=lambda rows: format_percent(fraction(int(added[rows].sum()))),
        exact=lambda row: fraction(int(values[row])),
    )
    bar = Column(
        "",
        values,
        lambda row: "",  # noqa: ARG005 - it is drawn
        width=_BAR,
        align=LEFT,
        bar=lambda row, width: block_bar(fraction(int(values[row])), width),
        optional=2,
    )
    return figures, bar
