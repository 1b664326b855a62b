"""Tables of a journal's rows, and exact sums of rows that are no longer kept individually."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from perftui.run.columns import PHASES, TEXT
from perftui.run.journal import Column

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

BUCKETS = 256
"""Buckets per doubling of the value: each is 0.4 % wide, and values below 512 have one each."""

Histogram = dict[int, tuple[int, int]]
"""Count and sum of the values in each bucket."""


def histogram(values: Ints) -> Histogram:
    """Histogram of ``values``, which must not be negative."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    buckets = exponent.astype(np.int64) * BUCKETS + (mantissa * 2 * BUCKETS).astype(np.int64)
    numbers, inverse, counts = np.unique(buckets, return_inverse=True, return_counts=True)
    totals = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(totals, inverse, values)
    pairs = zip(counts.tolist(), totals.tolist(), strict=True)
    return dict(zip(numbers.tolist(), pairs, strict=True))


class Weighed:
    """Individual values together with values of which only a histogram is left.

    A value of the histogram counts as the mean of its bucket, which is off by 0.4 % at most;
    without a histogram everything is exact."""

    def __init__(self, values: Ints, downsampled: Histogram | None = None) -> None:
        buckets = np.array(list((downsampled or {}).values()), dtype=np.int64).reshape(-1, 2)
        weights = np.concatenate((np.ones(len(values), dtype=np.int64), buckets[:, 0]))
        totals = np.concatenate((values, buckets[:, 1]))
        means = totals // np.maximum(weights, 1)
        order = np.argsort(means, kind="stable")
        self._values, self._totals, self._weights = means[order], totals[order], weights[order]
        self._ends = np.cumsum(self._weights)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def nearest_rank(self, percent: int) -> int:
        """The smallest value that at least ``percent`` of all do not exceed."""
        rank = max(-(-percent * len(self) // 100), 1)
        return int(self._values[np.searchsorted(self._ends, rank)])

    def trimmed_mean(self, share: int) -> int:
        """The mean without the smallest and the largest ``1 / share`` of the values."""
        cut = len(self) // share
        begins = self._ends - self._weights
        inside = np.clip(self._ends, cut, len(self) - cut) - np.clip(begins, cut, len(self) - cut)
        whole = inside == self._weights
        total = int(self._totals[whole].sum())
        total += int((self._values[~whole] * inside[~whole]).sum())
        return total // int(inside.sum())


SPREAD = ("duration", "input_wait", "batches_ready", "micro_batches")
"""Columns of steps that need quantiles."""


class ColumnSum(msgspec.Struct, frozen=True):
    """The known values of one column: from 0 on for steps, finite ones for samples."""

    count: int = 0
    total: int | float = 0
    highest: int | float = -1
    above_zero: int = 0
    """Number of values above 0."""


class Group(msgspec.Struct, frozen=True):
    """Similar rows: all steps of one kind that are judged alike, or all samples."""

    kind: str = ""
    disturbed: bool = False
    """Steps in which a window was open, or which follow such a step."""
    consistent: bool = True
    """Steps whose phases sum to their duration."""
    rows: int = 0
    first: int = 0
    """Start of the earliest row, ns."""
    last: int = 0
    """End of the latest row, ns."""
    columns: dict[str, ColumnSum] = {}
    """Columns with known values."""
    histograms: dict[str, Histogram] = {}
    """Histograms of the columns of ``SPREAD``."""

    @property
    def key(self) -> tuple[str, bool, bool]:
        """Kind, disturbed and consistent: rows with equal keys form one group."""
        return self.kind, self.disturbed, self.consistent

    def of(self, name: str) -> ColumnSum:
        """The sum of a column."""
        return self.columns.get(name, ColumnSum())


class Aggregates(msgspec.Struct, frozen=True):
    """Sums of rows by group; immutable. Without groups it stands for no rows."""

    groups: tuple[Group, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.groups)

    def plus(self, other: Aggregates) -> Aggregates:
        """The sums of the rows of both."""
        if not (self and other):
            return self or other
        by_key: dict[tuple[str, bool, bool], list[Group]] = {}
        for group in (*self.groups, *other.groups):
            by_key.setdefault(group.key, []).append(group)
        return Aggregates(tuple(map(_added, by_key.values())))

    def of(
        self, kind: str | None = None, disturbed: bool | None = None, consistent: bool | None = None
    ) -> Group:
        """All groups with these values summed into one; None matches any."""
        filters = (kind, disturbed, consistent)
        return _added(
            [
                group
                for group in self.groups
                if all(value in (None, has) for value, has in zip(filters, group.key, strict=True))
            ]
        )


def _added(groups: Sequence[Group]) -> Group:
    """All ``groups`` as one, which has the key of the first."""
    if len(groups) < 2:
        return groups[0] if groups else Group()
    columns: dict[str, list[ColumnSum]] = {}
    histograms: dict[str, Histogram] = {}
    for group in groups:
        for name, column in group.columns.items():
            if column.count:
                columns.setdefault(name, []).append(column)
        for name, buckets in group.histograms.items():
            sums = histograms.setdefault(name, {})
            for bucket, (count, total) in buckets.items():
                before = sums.get(bucket, (0, 0))
                sums[bucket] = before[0] + count, before[1] + total
    return Group(
        *groups[0].key,
        sum(group.rows for group in groups),
        min(group.first for group in groups),
        max(group.last for group in groups),
        {
            name: ColumnSum(
                sum(column.count for column in known),
                sum(column.total for column in known),
                max(column.highest for column in known),
                sum(column.above_zero for column in known),
            )
            for name, known in columns.items()
        },
        histograms,
    )


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, read-only: int64 or float64 for numbers, object for text.

    A missing number is NaN in a float column. ``table["duration"]`` is the column of that name."""

    columns: tuple[Column, ...] = ()
    values: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    sums: Aggregates = field(default_factory=Aggregates)
    """Sums of the rows between the first and the newest, if there are too many to keep all."""

    def __len__(self) -> int:
        return len(next(iter(self.values.values()), ()))

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def then(self, after: Table) -> Table:
        """This table's rows and those of ``after``, in this table's columns; values missing in
        ``after`` are NaN, in columns of integers -1."""
        values = {}
        for name, column in self.values.items():
            if name in after:
                rows = after[name]
            else:
                unknown: Any = {"f": np.nan, "i": -1}.get(column.dtype.kind)
                rows = np.full(len(after), unknown, dtype=column.dtype)
            values[name] = np.concatenate((column, rows))
        return Table(self.columns, values, self.sums.plus(after.sums))

    def where(self, mask: Mask) -> Table:
        """The rows for which ``mask`` is true, without ``sums``."""
        return Table(self.columns, {name: column[mask] for name, column in self.values.items()})

    def head(self, count: int) -> Table:
        """The first ``count`` rows, without a copy of them, and without ``sums``."""
        return Table(self.columns, {name: column[:count] for name, column in self.values.items()})


def aggregates_of(table: Table) -> Aggregates:
    """The sums of the rows of ``table``: steps (``STEP_COLUMNS``), or samples with a ``time``.

    The row before the first must not have been profiled."""
    if not len(table):
        return Aggregates()
    if "duration" not in table:
        return Aggregates((_group(table, Group().key),))
    kinds, disturbed = table["kind"], after_disturbance(table["profiled"])
    consistent = consistent_rows(table)
    groups = []
    for key in product(sorted(set(kinds.tolist())), (False, True), (False, True)):
        rows = (kinds == key[0]) & (disturbed == key[1]) & (consistent == key[2])
        if rows.any():
            groups.append(_group(table.where(rows), key))
    return Aggregates(tuple(groups))


def _group(table: Table, key: tuple[str, bool, bool]) -> Group:
    values = {
        name: column[np.isfinite(column)] if column.dtype.kind == "f" else column[column >= 0]
        for name, column in table.values.items()
        if column.dtype != object and name not in ("index", "start", "time")
    }
    starts = table["start"] if "start" in table else table["time"]
    ends = starts + table["duration"] if "duration" in table else starts
    columns = {
        name: ColumnSum(len(known), known.sum().item(), known.max().item(), int((known > 0).sum()))
        for name, known in values.items()
        if len(known)
    }
    histograms = {name: histogram(values[name]) for name in SPREAD if name in values}
    return Group(*key, len(table), int(starts.min()), int(ends.max()), columns, histograms)


def consistent_rows(steps: Table) -> Mask:
    """The steps whose phases sum to their duration."""
    phases = np.stack([steps[phase] for phase in PHASES])
    return np.asarray((phases.sum(axis=0) == steps["duration"]) & (phases >= 0).all(axis=0))


def after_disturbance(profiled: Ints) -> Mask:
    """Profiled rows and the row after each: it includes saving the window."""
    open_window = profiled == 1
    return np.asarray(open_window | np.concatenate(([False], open_window[:-1])))


class GrowingTable:
    """Collects rows; ``freeze`` only creates views of them."""

    def __init__(self, columns: Sequence[Column], floats: bool) -> None:
        """``floats`` chooses float64 for all columns; else those of ``TEXT`` hold objects."""
        self.columns = tuple(columns)
        number: type = np.float64 if floats else np.int64
        text = frozenset() if floats else TEXT
        self._fill = np.nan if floats else -1
        self._kinds = "iufb" if floats else "ib"
        self.refused = 0
        self._arrays: dict[str, npt.NDArray[Any]] = {
            column.name: np.empty(64, dtype=object if column.name in text else number)
            for column in self.columns
        }
        self._length = 0

    def extend(self, rows: Sequence[Sequence[Any]]) -> None:
        """Append ``rows``; None becomes NaN, or -1 in a column of integers.

        A row with anything but a number in a column of numbers (or a fraction, or more than 64
        bits, in one of integers) is skipped and counted in ``refused``."""
        if self._append(rows):
            return
        for row in rows:
            self.refused += not self._append([row])

    def __len__(self) -> int:
        return self._length

    def remove(self, start: int, end: int) -> Table:
        """Remove and return rows ``start`` to before ``end``; tables frozen before keep them."""
        removed = Table(self.columns, {name: a[start:end] for name, a in self._arrays.items()})
        for name, array in self._arrays.items():
            self._arrays[name] = np.concatenate((array[:start], array[end : self._length]))
        self._length -= end - start
        return removed

    def _append(self, rows: Sequence[Sequence[Any]]) -> bool:
        """Append all of ``rows`` or none; returns whether they fit."""
        if not rows:
            return True
        values = [
            self._convert(column.name, [row[index] for row in rows])
            for index, column in enumerate(self.columns)
        ]
        end = self._length + len(rows)
        for column, new in zip(self.columns, values, strict=True):
            if new is None:
                return False
            array = self._arrays[column.name]
            if end > len(array):
                grown = np.empty(max(end, 2 * len(array)), dtype=array.dtype)
                grown[: self._length] = array[: self._length]
                array = self._arrays[column.name] = grown
            array[self._length : end] = new
        self._length = end
        return True

    def _convert(self, name: str, values: list[Any]) -> npt.NDArray[Any] | None:
        """``values`` as an array for the column ``name``, None if one does not fit."""
        if self._arrays[name].dtype == object:
            # A text column has few words, in every row: one object for each is enough.
            values = [sys.intern(value) if type(value) is str else value for value in values]
            return np.fromiter(values, dtype=object, count=len(values))
        try:
            numbers = np.array([self._fill if value is None else value for value in values])
        except (ValueError, OverflowError):
            return None
        return numbers if numbers.ndim == 1 and numbers.dtype.kind in self._kinds else None

    def freeze(self) -> Table:
        """All rows so far, as a table that later appends do not change."""
        views = {}
        for name, array in self._arrays.items():
            view = array[: self._length]
            view.flags.writeable = False
            views[name] = view
        return Table(self.columns, views)
