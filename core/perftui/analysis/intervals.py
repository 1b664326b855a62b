"""Sets of half-open time intervals: merged before anything is summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perftui.trace.model import NONE, Int64, Ints, Mask


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals ``[start, end)`` in ns: sorted, not empty, and neither touching nor overlapping."""

    start: Int64
    end: Int64

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total(self) -> int:
        """Time covered, ns."""
        return int(np.sum(self.end - self.start))

    def before(self, times: Int64) -> Int64:
        """Time covered before each of ``times`` (any order)."""
        if not len(self):
            return np.zeros(len(times), dtype=np.int64)
        index = np.searchsorted(self.start, times, side="right") - 1
        inside = np.clip(times, self.start[index], self.end[index]) - self.start[index]
        return np.where(index < 0, 0, self._sums[index] + inside)

    @cached_property
    def _sums(self) -> Int64:
        """Time covered before the start of each interval."""
        lengths = self.end - self.start
        sums: Int64 = np.cumsum(lengths) - lengths
        return sums

    def holds(self, times: Int64) -> Mask:
        """Which of ``times`` are covered."""
        if not len(self):
            return np.zeros(len(times), dtype=bool)
        index = np.searchsorted(self.start, times, side="right") - 1
        return (index >= 0) & (times < self.end[np.maximum(index, 0)])

    def within(self, start: Int64, end: Int64) -> Int64:
        """Time covered in each window ``[start, end)``."""
        return self.before(end) - self.before(start)


EMPTY = Intervals(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def union(start: Int64, end: Int64) -> Intervals:
    """The time covered by any interval; they may overlap, in any order."""
    valid = end > start
    if not valid.all():
        start, end = start[valid], end[valid]
    if not len(start):
        return EMPTY
    if np.any(start[1:] < start[:-1]):
        by_start = np.argsort(start, kind="stable")
        start, end = start[by_start], end[by_start]
    reach = np.maximum.accumulate(end)
    opens = np.concatenate([[True], start[1:] > reach[:-1]])
    return Intervals(start[opens], reach[np.concatenate([opens[1:], [True]])])


def unite(*sets: Intervals) -> Intervals:
    """The time covered by any of the sets."""
    if not sets:
        return EMPTY
    return union(
        np.concatenate([part.start for part in sets]), np.concatenate([part.end for part in sets])
    )


def intersect(first: Intervals, second: Intervals) -> Intervals:
    """The time covered by both."""
    if len(first) > len(second):
        # Searching for a few among many is fast, the reverse is not.
        first, second = second, first
    lowest = np.searchsorted(second.end, first.start, side="right")
    counts = np.maximum(np.searchsorted(second.start, first.end, side="left") - lowest, 0)
    mine = np.repeat(np.arange(len(first)), counts)
    rank = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts)
    theirs = np.repeat(lowest, counts) + rank
    return Intervals(
        np.maximum(first.start[mine], second.start[theirs]),
        np.minimum(first.end[mine], second.end[theirs]),
    )


def complement(intervals: Intervals, start: int, end: int) -> Intervals:
    """The time in ``[start, end)`` that is not covered."""
    begins = np.clip(np.concatenate([[start], intervals.end]), start, end).astype(np.int64)
    stops = np.clip(np.concatenate([intervals.start, [end]]), start, end).astype(np.int64)
    valid = stops > begins
    return Intervals(begins[valid], stops[valid])


def subtract(first: Intervals, second: Intervals) -> Intervals:
    """The time that ``first`` covers and ``second`` does not."""
    if not len(first) or not len(second):
        return first
    return intersect(first, complement(second, int(first.start[0]), int(first.end[-1])))


_FEW = 5
"""Most numbers compared one by one: a lookup table takes as long as six comparisons (10 M rows)."""


def sums(group: Ints, values: Int64, groups: int) -> Int64:
    """Sum of ``values`` in each group. ``np.bincount`` would sum in floats."""
    result = np.zeros(groups, dtype=np.int64)
    np.add.at(result, group, values)
    return result


def first_longest(group: Ints, values: Int64, groups: int) -> Int64:
    """Index of the largest value of each group, the first of equals; NONE for an empty group."""
    largest = np.full(groups, np.iinfo(np.int64).min)
    np.maximum.at(largest, group, values)
    hits = np.flatnonzero(values == largest[group])[::-1]
    result = np.full(groups, NONE, dtype=np.int64)
    result[group[hits]] = hits
    return result


def mask_of(count: int, *positions: list[int] | Ints) -> Mask:
    """The elements, of ``count``, at all of these ``positions``."""
    mask = np.zeros(count, dtype=bool)
    for some in positions:
        mask[some] = True
    return mask


def numbered(column: Ints, accepted: Sequence[int], count: int) -> Mask:
    """Which numbers of ``column``, all below ``count``, are ``accepted``."""
    if len(accepted) > _FEW:
        table = np.zeros(count, dtype=bool)
        table[accepted] = True
        # Same as ``table[column]``, in half the time.
        return table.take(column)
    mask = np.zeros(len(column), dtype=bool)
    for number in accepted:
        mask |= column == number
    return mask
