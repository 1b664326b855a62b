"""Who called whom, on each track: exact, by sweeps with a stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from perftui.trace.categories import RANGES
from perftui.trace.columns import native
from perftui.trace.columns.downcast import downcast
from perftui.trace.columns.sweep import OUTSIDE, OVERLAPPING, sweep
from perftui.trace.model import NONE, Int32, Int64, Ints


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
