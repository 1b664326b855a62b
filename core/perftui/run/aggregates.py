"""Exact sums over rows of a journal that are no longer kept individually."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from perftui.run.columns import PHASES
from perftui.run.table import Table

BUCKETS = 256
"""Buckets per doubling of the value: each is 0.4 % wide, and values below 512 have one each."""

Histogram = Mapping[int, tuple[int, int]]
"""Count and sum of the values in each bucket."""

Ints = npt.NDArray[np.int64]


def histogram(values: Ints) -> dict[int, tuple[int, int]]:
    """Histogram of ``values``, which must not be negative."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    buckets = exponent.astype(np.int64) * BUCKETS + (mantissa * 2 * BUCKETS).astype(np.int64)
    numbers, inverse = np.unique(buckets, return_inverse=True)
    counts = np.bincount(inverse, minlength=len(numbers))
    totals = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(totals, inverse, values)
    pairs = zip(counts.tolist(), totals.tolist(), strict=True)
    return dict(zip(numbers.tolist(), pairs, strict=True))


def added(one: Histogram, other: Histogram) -> dict[int, tuple[int, int]]:
    """The histogram of the values of both."""
    result = dict(one)
    for bucket, (count, total) in other.items():
        before = result.get(bucket, (0, 0))
        result[bucket] = before[0] + count, before[1] + total
    return result


class Weighed:
    """Individual values together with values of which only a histogram is left.

    A value of the histogram counts as the mean of its bucket, which is off by 0.4 % at most;
    without a histogram everything is exact.
    """

    def __init__(self, values: Ints, downsampled: Histogram | None = None) -> None:
        downsampled = downsampled or {}
        counts = [count for count, _ in downsampled.values()]
        totals = [total for _, total in downsampled.values()]
        counted = np.array(counts, dtype=np.int64)
        summed = np.array(totals, dtype=np.int64)
        means = summed // np.maximum(counted, 1)
        every = np.concatenate((values, means))
        order = np.argsort(every, kind="stable")
        self._values = every[order]
        self._totals = np.concatenate((values, summed))[order]
        self._weights = np.concatenate((np.ones(len(values), dtype=np.int64), counted))[order]
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

Mask = npt.NDArray[np.bool_]


class ColumnSum(msgspec.Struct, frozen=True):
    """The known values of one column: from 0 on for steps, finite ones for samples."""

    count: int = 0
    total: int | float = 0
    highest: int | float = -1
    above_zero: int = 0
    """Number of values above 0."""

    def plus(self, other: ColumnSum) -> ColumnSum:
        """The sum of this column and ``other``."""
        if not (self.count and other.count):
            return self if self.count else other
        highest = max(self.highest, other.highest)
        return ColumnSum(
            self.count + other.count,
            self.total + other.total,
            highest,
            self.above_zero + other.above_zero,
        )


NOTHING = ColumnSum()


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
    histograms: dict[str, dict[int, tuple[int, int]]] = {}

    @property
    def key(self) -> tuple[str, bool, bool]:
        """Kind, disturbed and consistent: rows with equal keys form one group."""
        return self.kind, self.disturbed, self.consistent

    def plus(self, other: Group) -> Group:
        """The sum of this group and ``other``, with this one's key."""
        if not (self.rows and other.rows):
            return self if self.rows else other
        columns = {
            name: self.of(name).plus(other.of(name)) for name in {**self.columns, **other.columns}
        }
        spread = {
            name: added(self.histogram(name), other.histogram(name))
            for name in {**self.histograms, **other.histograms}
        }
        first, last = min(self.first, other.first), max(self.last, other.last)
        rows = self.rows + other.rows
        return Group(*self.key, rows, first, last, columns, spread)

    def of(self, name: str) -> ColumnSum:
        """The sum of a column."""
        return self.columns.get(name, NOTHING)

    def histogram(self, name: str) -> Histogram:
        """The histogram of a column of ``SPREAD``."""
        return self.histograms.get(name, {})


class Aggregates(msgspec.Struct, frozen=True):
    """Sums of rows by group; immutable. Without groups it stands for no rows."""

    groups: tuple[Group, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.groups)

    def plus(self, other: Aggregates) -> Aggregates:
        """The sums of the rows of both."""
        if not (self and other):
            return self or other
        groups = {group.key: group for group in self.groups}
        for group in other.groups:
            groups[group.key] = groups.get(group.key, Group(*group.key)).plus(group)
        return Aggregates(tuple(groups.values()))

    def of(
        self, kind: str | None = None, disturbed: bool | None = None, consistent: bool | None = None
    ) -> Group:
        """All groups with these values summed into one; None matches any."""
        filters = (kind, disturbed, consistent)
        chosen = [
            group
            for group in self.groups
            if all(value in (None, has) for value, has in zip(filters, group.key, strict=True))
        ]
        return reduce(Group.plus, chosen, Group())

    def steady(self, kind: str = "train", consistent: bool | None = None) -> Group:
        """Undisturbed steps of ``kind``; summed rows lie after the warm-up."""
        return self.of(kind, False, consistent)


NO_AGGREGATES = Aggregates()


def aggregates_of(table: Table) -> Aggregates:
    """The sums of the rows of ``table``: steps (``STEP_COLUMNS``), or samples with a ``time``.

    The row before the first must not have been profiled.
    """
    if not len(table):
        return Aggregates()
    if "duration" not in table:
        return Aggregates((_group(table, Group()),))
    disturbed, consistent = after_disturbance(table["profiled"]), consistent_rows(table)
    groups = []
    for kind in sorted(set(table["kind"].tolist())):
        for key in ((kind, d, c) for d in (False, True) for c in (False, True)):
            rows = (table["kind"] == kind) & (disturbed == key[1]) & (consistent == key[2])
            if rows.any():
                groups.append(_group(table.where(rows), Group(*key)))
    return Aggregates(tuple(groups))


def consistent_rows(steps: Table) -> Mask:
    """The steps whose phases sum to their duration."""
    phases = np.stack([steps[phase] for phase in PHASES])
    return np.asarray((phases.sum(axis=0) == steps["duration"]) & (phases >= 0).all(axis=0))


def after_disturbance(profiled: npt.NDArray[np.int64]) -> Mask:
    """Profiled rows and the row after each: it includes saving the window."""
    open_window = profiled == 1
    after_window = np.concatenate(([False], open_window[:-1]))
    return np.asarray(open_window | after_window)


def _group(table: Table, group: Group) -> Group:
    values = {
        name: column
        for name, column in table.values.items()
        if column.dtype != object and name not in ("index", "start", "time")
    }
    starts = table["start"] if "start" in table else table["time"]
    ends = starts + table["duration"] if "duration" in table else starts
    return Group(
        *group.key,
        len(table),
        int(starts.min()),
        int(ends.max()),
        {name: _sum(column) for name, column in values.items()},
        {name: histogram(_known_values(values[name])) for name in SPREAD if name in values},
    )


def _sum(column: npt.NDArray[Any]) -> ColumnSum:
    values = _known_values(column)
    if not len(values):
        return NOTHING
    return ColumnSum(len(values), values.sum().item(), values.max().item(), int((values > 0).sum()))


def _known_values(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return column[np.isfinite(column)] if column.dtype.kind == "f" else column[column >= 0]
