"""One pass of nesting over a track, in Python; ``sweep.c`` is its compiled form."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perftui.trace.model import NONE, Int32, Int64

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
