"""Who called whom, on each track: exact, by a sweep with a stack."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from perftui.trace.model import NONE, Int32, Int64


@dataclass(frozen=True, eq=False)
class Nesting:
    """``parent`` (a row index, NONE at the top) and ``depth`` of every row."""

    parent: Int32
    depth: Int32


def order(track: Int32, start: Int64, duration: Int64) -> Int64:
    """Rows in file order, put in order of (track, start, longest first, file order)."""
    by_track = np.argsort(track, kind="stable")
    bounds = _bounds(track[by_track])
    for begin, end in bounds:
        rows = by_track[begin:end]
        starts = start[rows]
        if not np.all(starts[1:] > starts[:-1]):
            by_track[begin:end] = rows[np.lexsort((-duration[rows], starts))]
    result: Int64 = by_track.astype(np.int64)
    return result


def nest(track: Int32, start: Int64, end: Int64, is_range: npt.NDArray[np.bool_]) -> Nesting:
    """Nest ordered rows, track by track.

    A row is the child of the innermost row that is open when it starts. A call that outlasts its
    parent (clocks are read one after the other) stays its child. A range (an annotation, something
    asynchronous) that overlaps other rows only partially is no part of the call stack: it gets
    depth 0 and no parent or child.
    """
    parent = np.full(len(track), NONE, dtype=np.int32)
    depth = np.zeros(len(track), dtype=np.int32)
    for begin, stop in _bounds(track):
        if stop - begin < 2 or np.all(start[begin + 1 : stop] >= end[begin : stop - 1]):
            continue
        sweep = _Sweep(start[begin:stop], end[begin:stop], is_range[begin:stop])
        parents, depths = sweep.run()
        nested = np.array(parents, dtype=np.int32)
        parent[begin:stop] = np.where(nested == NONE, NONE, nested + begin)
        depth[begin:stop] = depths
    return Nesting(parent, depth)


def _bounds(track: Int32) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(track)) + 1
    cuts = [0, *edges.tolist(), len(track)]
    return [(begin, end) for begin, end in pairwise(cuts) if end > begin]


class _Sweep:
    """One track. Lists, because a loop over them is five times as fast as over arrays."""

    def __init__(self, start: Int64, end: Int64, is_range: npt.NDArray[np.bool_]) -> None:
        self._start: list[int] = start.tolist()
        self._end: list[int] = end.tolist()
        self._is_range: list[bool] = is_range.tolist()

    def run(self) -> tuple[list[int], list[int]]:
        """Parent and depth by position in the track."""
        outside: set[int] = set()
        while True:
            parents, depths, overlapping = self._pass(outside)
            if not overlapping:
                return parents, depths
            # Each pass takes out at least one range, and in files from PyTorch nearly always all.
            outside |= overlapping

    def _pass(self, outside: set[int]) -> tuple[list[int], list[int], set[int]]:
        end = self._end
        parents = [NONE] * len(end)
        depths = [0] * len(end)
        overlapping: set[int] = set()
        stack: list[int] = []
        for row, begin in enumerate(self._start):
            if row in outside:
                continue
            while stack and end[stack[-1]] <= begin:
                stack.pop()
            if stack:
                if end[row] > end[stack[-1]]:
                    self._overlap(row, stack, overlapping)
                parents[row] = stack[-1]
                depths[row] = len(stack)
            stack.append(row)
        return parents, depths, overlapping

    def _overlap(self, row: int, stack: list[int], overlapping: set[int]) -> None:
        """Note the ranges in a partial overlap: the row itself, or those open that it outlasts."""
        if self._is_range[row]:
            overlapping.add(row)
            return
        overlapping.update(
            open_row
            for open_row in stack
            if self._is_range[open_row] and self._end[open_row] < self._end[row]
        )
