"""Rows of a trace against intervals of time, track by track: there rows are in order of starts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from perftui.analysis.intervals import Intervals, union, unite
from perftui.trace.model import NONE, Int64, Trace

Mask = npt.NDArray[np.bool_]


def covered(trace: Trace, rows: Mask) -> Intervals:
    """The time that any of ``rows`` covers."""
    chosen = np.flatnonzero(rows)
    start, end = trace.start[chosen], trace.ends_of(chosen)
    edges = np.searchsorted(chosen, _bounds(trace)).tolist()
    return unite(*(union(start[first:last], end[first:last]) for first, last in pairwise(edges)))


def begun_in(trace: Trace, intervals: Intervals) -> Mask:
    """Which rows begin in ``intervals``."""
    mask: Mask = part_of_rows(trace, (intervals,)) != NONE
    return mask


def part_of_rows(trace: Trace, parts: Sequence[Intervals]) -> npt.NDArray[np.int8]:
    """The number of that one of ``parts``, which exclude each other, in which each row begins; NONE
    outside of all. Only the edges of the parts are looked up."""
    turns = np.zeros(len(trace) + 1, dtype=np.int8)
    turns[0] = NONE
    for first, last in pairwise(_bounds(trace).tolist()):
        start = trace.start[first:last]
        for number, part in enumerate(parts, 1):
            begin, end = first + np.searchsorted(start, (part.start, part.end))
            # Those that hold a row have edges of their own.
            held = end > begin
            turns[begin[held]] += number
            turns[end[held]] -= number
    found: npt.NDArray[np.int8] = np.cumsum(turns[:-1], dtype=np.int8)
    return found


def _bounds(trace: Trace) -> Int64:
    """Where each track begins, and the last one ends."""
    return np.searchsorted(trace.track, np.arange(len(trace.tracks) + 1))
