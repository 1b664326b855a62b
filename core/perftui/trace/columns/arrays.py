"""Integer arrays: growing, narrowing, outliers in time, and nesting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.columns import native
from perftui.trace.model import NONE, RANGES, Int32, Int64, Ints

_LIMITS = tuple((kind, np.iinfo(kind).min, np.iinfo(kind).max) for kind in (np.int16, np.int32))


def downcast(column: npt.NDArray[np.signedinteger[Any]]) -> Ints:
    """The column as 16, 32 or 64 bits, as its values need; the same array if it already is."""
    if not len(column):
        return column
    lowest, highest = int(column.min()), int(column.max())
    for kind, least, most in _LIMITS:
        if least <= lowest and highest <= most:
            return column.astype(kind, copy=False)
    return column


_FEWEST = 1 << 14


class GrowableArray:
    """Values in one block that grows in place.

    A list of small arrays, joined at the end, takes twice the memory: the freed small ones are too
    scattered to be given back.
    """

    def __init__(self) -> None:
        self._values: npt.NDArray[Any] = np.empty(0, dtype=np.int16)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, values: Ints) -> None:
        """Append; the column becomes as wide as its largest value needs."""
        if not len(values):
            return
        length = self._length + len(values)
        width = self._values.dtype.itemsize
        if values.dtype.itemsize > width:
            values = downcast(values)
        if values.dtype.itemsize > width:
            self._values = self._values[: self._length].astype(values.dtype)
        if length > len(self._values):
            # An eighth more: the unused part is filled with zeros, and so takes memory.
            self._values.resize(max(_FEWEST, length + length // 8), refcheck=False)
        self._values[self._length : length] = values
        self._length = length

    def copy(self) -> GrowableArray:
        """Another column with the values so far."""
        other = GrowableArray()
        other.extend(self._values[: self._length])
        return other

    def take(self) -> npt.NDArray[Any]:
        """The column, which is empty afterwards."""
        self._values.resize(self._length, refcheck=False)
        values = self._values
        self._values, self._length = np.empty(0, dtype=np.int16), 0
        return values


_HOURS = 3_600_000_000_000
FAR = 6 * _HOURS
"""A gap without events, in ns, longer than any recording."""


@dataclass(frozen=True, eq=False)
class TimeOutliers:
    """A few events separated from all others by a long silence."""

    rows: Int64
    message: str


def time_outliers(start: Int64) -> TimeOutliers | None:
    """Events that are far from the rest; None if there are none."""
    if int(start.max()) - int(start.min()) < FAR:
        return None
    ordered = np.sort(start)
    gaps = np.diff(ordered)
    split = int(np.argmax(gaps)) + 1
    if gaps[split - 1] < FAR:
        return None
    before = start < ordered[split]
    rows = np.flatnonzero(before if 2 * split <= len(start) else ~before)
    lies = "event lies" if len(rows) == 1 else "events lie"
    hours = round(int(gaps[split - 1]) / _HOURS)
    message = f"{len(rows):,} {lies} {hours:,} hours from all others, by the times in the file"
    return TimeOutliers(rows, message)


BLOCK = 1 << 15
"""Rows that are converted to lists of integers at a time: lists take five times the memory of an
array, and are five times as fast in a loop."""

OUTSIDE = 1
"""Mark of a row outside the call stack."""

OVERLAPPING = 2
"""Mark of a range that overlaps partially in this pass, and is outside in the next."""


def sweep(
    columns: tuple[Int64, Int64, npt.NDArray[np.bool_]],
    outside: npt.NDArray[np.uint8],
    first: int,
    nesting: tuple[Int32, Int32],
) -> None:
    """Fill parent and depth of a track's rows, of which the first is row ``first``.

    ``columns`` are start, duration, and whether a row is a range; overlapping ranges are marked in
    ``outside``.
    """
    start, duration, is_range = columns
    parents, depths = nesting
    end, is_outside = start + duration, outside == OUTSIDE
    if np.all(start[1:] >= end[:-1]):
        return
    # End and row of each open row, outermost first; no row ends later than those it is in.
    stack: list[tuple[int, int]] = []
    for place in range(0, len(start), BLOCK):
        block = slice(place, place + BLOCK)
        nested = []
        rows = zip(*(column[block].tolist() for column in (start, end, is_outside)), strict=True)
        for row, (begin, stop, is_out) in enumerate(rows, place):
            if is_out:
                nested.append((NONE, 0))
                continue
            while stack and stack[-1][0] <= begin:
                stack.pop()
            if stack and stop > stack[-1][0]:
                # A partial overlap: take out the row itself, or the open ranges that it outlasts.
                outlasted = [at for until, at in stack if is_range[at] and until < stop]
                outside[[row] if is_range[row] else outlasted] = OVERLAPPING
            nested.append((stack[-1][1] + first if stack else NONE, len(stack)))
            stack.append((min(stop, stack[-1][0]) if stack else stop, row))
        parents[block], depths[block] = zip(*nested, strict=True)


@dataclass(frozen=True, eq=False)
class Nesting:
    """``parent`` (a row index, NONE at the top) and ``depth`` of every row."""

    parent: Int32
    depth: Ints


def order(track: Ints, start: Int64, duration: Int64) -> Int32:
    """Rows in file order, sorted by (track, start, longest first, file order)."""
    # Profilers write long stretches in order, for which a sort of the column as it is takes a
    # fifth of ``lexsort``; durations only count where two starts are equal.
    rows = np.lexsort((start, track)).astype(np.int32)
    equal = (np.diff(start[rows]) == 0) & (np.diff(track[rows]) == 0)
    among = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    here = rows[among]
    rows[among] = here[np.lexsort((-duration[here], start[here], track[here]))]
    return rows


def nest_by_category(
    track: Ints, start: Int64, duration: Int64, category: Ints, categories: Sequence[str]
) -> Nesting:
    """``nest``, with ranges given by the category of each row, an index into ``categories``."""
    is_range = np.isin(category, [i for i, name in enumerate(categories) if name in RANGES])
    return nest(track, start, duration, is_range)


def nest(track: Ints, start: Int64, duration: Int64, is_range: npt.NDArray[np.bool_]) -> Nesting:
    """Nest ordered rows, track by track.

    A row is the child of the innermost row that is open when it starts. A call that outlasts its
    parent (clocks are read one after the other) stays its child, but takes no child beyond the
    parent's end: its own time is cut there, and theirs would be lost. A range (an annotation,
    something asynchronous) that overlaps other rows only partially is no part of the call stack: it
    gets depth 0 and no parent or child.
    """
    parent = np.full(len(track), NONE, dtype=np.int32)
    depth = np.zeros(len(track), dtype=np.int32)
    compiled = native.compiled()
    fill = partial(native.sweep, compiled) if compiled else sweep
    edges = np.flatnonzero(np.diff(track)) + 1
    for begin, stop in pairwise([0, *edges.tolist(), len(track)]):
        rows = slice(begin, stop)
        columns = start[rows], duration[rows], is_range[rows]
        outside = np.zeros(stop - begin, dtype=np.uint8)
        fill(columns, outside, begin, (parent[rows], depth[rows]))
        # Each pass takes out at least one range, and in files from PyTorch nearly always all.
        while (overlapping := outside == OVERLAPPING).any():
            outside[overlapping] = OUTSIDE
            fill(columns, outside, begin, (parent[rows], depth[rows]))
    return Nesting(parent, downcast(depth))
