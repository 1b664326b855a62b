"""Who called whom, on each track: exact, by a sweep with a stack."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from perftui.trace.model import NONE, Int32, Int64

BLOCK = 1 << 15
"""Rows that are lists of integers at a time: those take five times the memory of an array."""


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
    parent (clocks are read one after the other) stays its child, but takes none of its own behind
    the parent's end: that time is counted as nobody's, and theirs would be too. A range (an annotation, something
    asynchronous) that overlaps other rows only partially is no part of the call stack: it gets
    depth 0 and no parent or child.
    """
    parent = np.full(len(track), NONE, dtype=np.int32)
    depth = np.zeros(len(track), dtype=np.int32)
    for begin, stop in _bounds(track):
        if stop - begin < 2 or np.all(start[begin + 1 : stop] >= end[begin : stop - 1]):
            continue
        sweep = _Sweep(start[begin:stop], end[begin:stop], is_range[begin:stop])
        nested, depth[begin:stop] = sweep.run()
        parent[begin:stop] = np.where(nested == NONE, NONE, nested + begin)
    return Nesting(parent, depth)


def _bounds(track: Int32) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(track)) + 1
    cuts = [0, *edges.tolist(), len(track)]
    return [(begin, end) for begin, end in pairwise(cuts) if end > begin]


class _Sweep:
    """One track. Loops over lists, which is five times as fast as over arrays, block by block."""

    def __init__(self, start: Int64, end: Int64, is_range: npt.NDArray[np.bool_]) -> None:
        self._start = start
        self._end = end
        self._is_range = is_range

    def run(self) -> tuple[Int32, Int32]:
        """Parent and depth by position in the track."""
        outside: set[int] = set()
        while True:
            parents, depths, overlapping = self._pass(outside)
            if not overlapping:
                return parents, depths
            # Each pass takes out at least one range, and in files from PyTorch nearly always all.
            outside |= overlapping

    def _pass(self, outside: set[int]) -> tuple[Int32, Int32, set[int]]:
        parents = np.empty(len(self._start), dtype=np.int32)
        depths = np.empty(len(self._start), dtype=np.int32)
        overlapping: set[int] = set()
        stack: list[tuple[int, int]] = []
        for begin in range(0, len(self._start), BLOCK):
            block = slice(begin, begin + BLOCK)
            found = self._sweep_block(block, stack, outside, overlapping)
            parents[block], depths[block] = found
        return parents, depths, overlapping

    def _sweep_block(
        self, block: slice, stack: list[tuple[int, int]], outside: set[int], overlapping: set[int]
    ) -> tuple[list[int], list[int]]:
        """``stack`` holds the end and the row of what is open, and goes on into the next block."""
        parents: list[int] = []
        depths: list[int] = []
        rows = zip(self._start[block].tolist(), self._end[block].tolist(), strict=True)
        for row, (begin, end) in enumerate(rows, block.start):
            if row in outside:
                parents.append(NONE)
                depths.append(0)
                continue
            while stack and stack[-1][0] <= begin:
                stack.pop()
            if stack and end > stack[-1][0]:
                overlapping |= self._in_overlap(row, end, stack)
            parents.append(stack[-1][1] if stack else NONE)
            depths.append(len(stack))
            stack.append((min(end, stack[-1][0]) if stack else end, row))
        return parents, depths

    def _in_overlap(self, row: int, end: int, stack: list[tuple[int, int]]) -> set[int]:
        """Ranges in a partial overlap: the row itself, or those open that it outlasts."""
        if self._is_range[row]:
            return {row}
        return {each for until, each in stack if self._is_range[each] and until < end}
