"""Arrays that grow, take a smaller type, overlap and nest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.columns import native
from perftui.trace.model import NONE, RANGES, Int32, Int64, Ints

_LIMITS = tuple((kind, np.iinfo(kind).min, np.iinfo(kind).max) for kind in (np.int16, np.int32))


def downcast(column: npt.NDArray[np.signedinteger[Any]]) -> Ints:
    """The column as 16, 32 or 64 bits, whatever its values need; the same array if it is so."""
    if not len(column):
        return column
    lowest, highest = int(column.min()), int(column.max())
    for kind, least, most in _LIMITS:
        if least <= lowest and highest <= most:
            return column.astype(kind, copy=False)
    return column


_FEWEST = 1 << 14


class GrowableArray:
    """Values in one block that is made longer in place.

    A list of small arrays, joined at the end, takes twice the memory: what the small ones leave
    free is too scattered to be given back.
    """

    def __init__(self) -> None:
        self._values: npt.NDArray[Any] = np.empty(0, dtype=np.int16)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, values: Ints) -> None:
        """Append; the column becomes as wide as the widest value needs."""
        if not len(values):
            return
        length = self._length + len(values)
        width = self._values.dtype.itemsize
        if values.dtype.itemsize > width:
            values = downcast(values)
        if values.dtype.itemsize > width:
            self._values = self._values[: self._length].astype(values.dtype)
        if length > len(self._values):
            # An eighth more: what is not used yet is filled with zeros, and so takes memory.
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
"""An interval without any event, in ns, that no recording has."""


@dataclass(frozen=True, eq=False)
class TimeOutliers:
    """Few events with a long silence between them and all others."""

    rows: Int64
    message: str


def time_outliers(start: Int64) -> TimeOutliers | None:
    """The events that are far from the rest; None where all are together."""
    if int(start.max()) - int(start.min()) < FAR:
        return None
    ordered = np.sort(start)
    gaps = np.diff(ordered)
    where = int(np.argmax(gaps)) + 1
    if gaps[where - 1] < FAR:
        return None
    before = start < ordered[where]
    rows = np.flatnonzero(before if 2 * where <= len(start) else ~before)
    lies = "event lies" if len(rows) == 1 else "events lie"
    hours = round(int(gaps[where - 1]) / _HOURS)
    message = f"{len(rows):,} {lies} {hours:,} hours from all others, by the times in the file"
    return TimeOutliers(rows, message)


BLOCK = 1 << 15
"""Rows that are lists of integers at a time: those take five times the memory of an array."""

OUTSIDE = 1
"""Mark of a row that is no part of the call stack."""

OVERLAPPING = 2
"""Mark of a range that a pass found in a partial overlap, to be outside in the next."""

Stack = list[tuple[int, int]]
"""End and row of what is open, outermost first; no row ends later than those it is in."""


def sweep(
    columns: tuple[Int64, Int64, npt.NDArray[np.bool_]],
    outside: npt.NDArray[np.uint8],
    first: int,
    nesting: tuple[Int32, Int32],
) -> None:
    """Fill parent and depth of a track's rows, of which the first is row ``first``.

    ``columns`` are start, duration, and whether a row is a range; overlapping ranges are marked in
    ``outside``. Loops over lists, which is five times as fast as over arrays, block by block.
    """
    start, duration, is_range = columns
    parents, depths = nesting
    end = start + duration
    if np.all(start[1:] >= end[:-1]):
        return
    stack: Stack = []
    for begin in range(0, len(start), BLOCK):
        block = slice(begin, begin + BLOCK)
        rows = zip(start[block].tolist(), end[block].tolist(), strict=True)
        parents[block], depths[block] = _block(rows, begin, stack, is_range, outside)
    parents[parents != NONE] += first


def _block(
    rows: zip[tuple[int, int]],
    first: int,
    stack: Stack,
    is_range: npt.NDArray[np.bool_],
    outside: npt.NDArray[np.uint8],
) -> tuple[list[int], list[int]]:
    parents: list[int] = []
    depths: list[int] = []
    taken_out = set(np.flatnonzero(outside == OUTSIDE).tolist())
    for row, (begin, end) in enumerate(rows, first):
        if row in taken_out:
            parents.append(NONE)
            depths.append(0)
            continue
        while stack and stack[-1][0] <= begin:
            stack.pop()
        if stack and end > stack[-1][0]:
            outside[_in_overlap(row, end, stack, is_range)] = OVERLAPPING
        parents.append(stack[-1][1] if stack else NONE)
        depths.append(len(stack))
        stack.append((min(end, stack[-1][0]) if stack else end, row))
    return parents, depths


def _in_overlap(row: int, end: int, stack: Stack, is_range: npt.NDArray[np.bool_]) -> list[int]:
    """Ranges in a partial overlap: the row itself, or those open that it outlasts."""
    if is_range[row]:
        return [row]
    return [each for until, each in stack if is_range[each] and until < end]


@dataclass(frozen=True, eq=False)
class Nesting:
    """``parent`` (a row index, NONE at the top) and ``depth`` of every row."""

    parent: Int32
    depth: Ints


def order(track: Ints, start: Int64, duration: Int64) -> Int32:
    """Rows in file order, put in order of (track, start, longest first, file order)."""
    compiled = native.compiled()
    if compiled is None:
        result = np.argsort(track, kind="stable").astype(np.int32)
        for begin, end in _bounds(track[result]):
            _by_start(result[begin:end], start, duration)
        return result
    tracks = track.astype(np.int32, copy=False)
    result, begins, mixed = native.by_track(compiled, tracks, start, duration)
    ends = np.append(begins[1:], len(track))
    for number in np.flatnonzero(mixed).tolist():
        native.sort(compiled, result[begins[number] : ends[number]], start, duration)
    return result


def _by_start(rows: Int32, start: Int64, duration: Int64) -> None:
    """Order the rows of one track, which are in file order."""
    starts = start[rows]
    if np.any(starts[1:] < starts[:-1]):
        by_start = np.argsort(starts, kind="stable")
        rows[:] = rows[by_start]
        starts = starts[by_start]
    together = starts[1:] == starts[:-1]
    if together.any():
        _longest_first(rows, together, start, duration)


def _longest_first(
    rows: Int32, together: npt.NDArray[np.bool_], start: Int64, duration: Int64
) -> None:
    """Order those that start ``together`` with the next: few, where times have nanoseconds."""
    places = np.flatnonzero(np.append(together, False) | np.insert(together, 0, False))
    tied = rows[places]
    rows[places] = tied[np.lexsort((-duration[tied], start[tied]))]


def nest_by_category(
    track: Ints, start: Int64, duration: Int64, category: Ints, categories: Sequence[str]
) -> Nesting:
    """``nest``, with ranges found by the category of each row, an index into ``categories``."""
    is_range = np.isin(category, [i for i, name in enumerate(categories) if name in RANGES])
    return nest(track, start, duration, is_range)


def nest(track: Ints, start: Int64, duration: Int64, is_range: npt.NDArray[np.bool_]) -> Nesting:
    """Nest ordered rows, track by track.

    A row is the child of the innermost row that is open when it starts. A call that outlasts its
    parent (clocks are read one after the other) stays its child, but takes no child behind the
    parent's end: its own time is cut there, and theirs would be lost. A range (an annotation,
    something asynchronous) that overlaps other rows only partially is no part of the call stack:
    it gets depth 0 and no parent or child.
    """
    parent = np.full(len(track), NONE, dtype=np.int32)
    depth = np.zeros(len(track), dtype=np.int32)
    for begin, stop in _bounds(track):
        rows = slice(begin, stop)
        columns = start[rows], duration[rows], is_range[rows]
        _sweep(columns, begin, (parent[rows], depth[rows]))
    return Nesting(parent, downcast(depth))


def _sweep(
    columns: tuple[Int64, Int64, npt.NDArray[np.bool_]], first: int, nesting: tuple[Int32, Int32]
) -> None:
    """Fill parent and depth of one track, whose first row is row ``first``."""
    compiled = native.compiled()
    outside = np.zeros(len(columns[0]), dtype=np.uint8)
    while True:
        if compiled:
            native.sweep(compiled, columns, outside, first, nesting)
        else:
            sweep(columns, outside, first, nesting)
        overlapping = outside == OVERLAPPING
        if not overlapping.any():
            return
        # Each pass takes out at least one range, and in files from PyTorch nearly always all.
        outside[overlapping] = OUTSIDE


def _bounds(track: Ints) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(track)) + 1
    cuts = [0, *edges.tolist(), len(track)]
    return [(begin, end) for begin, end in pairwise(cuts) if end > begin]
