"""Rows of a trace against intervals of time, track by track: there rows are in order of starts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from perftui.analysis.intervals import Intervals, union, unite
from perftui.analysis.once import once
from perftui.trace.columns import native
from perftui.trace.model import NONE, Int64, Trace

Mask = npt.NDArray[np.bool_]


def covered(trace: Trace, rows: Mask) -> Intervals:
    """The time that any of ``rows`` covers."""
    compiled = native.compiled()
    tracks = pairwise(track_bounds(trace).tolist())
    if compiled:
        return unite(*(Intervals(*native.covered(compiled, trace, *one, rows)) for one in tracks))
    chosen = (np.flatnonzero(rows[first:last]) + first for first, last in tracks)
    return unite(*(union(trace.start[each], trace.ends_of(each)) for each in chosen))


def begun_in(trace: Trace, intervals: Intervals) -> Mask:
    """Which rows begin in ``intervals``."""
    mask: Mask = part_of_rows(trace, (intervals,)) != NONE
    return mask


def part_of_rows(trace: Trace, parts: Sequence[Intervals]) -> npt.NDArray[np.int8]:
    """The number of that one of ``parts``, which exclude each other, in which each row begins; NONE
    outside of all. Only the edges of the parts are looked up."""
    rows, changes = [np.zeros(1, dtype=np.int64)], [np.array([NONE])]
    for first, last in pairwise(track_bounds(trace).tolist()):
        start = trace.start[first:last]
        for number, part in enumerate(parts, 1):
            begin, end = first + np.searchsorted(start, (part.start, part.end))
            rows += [begin, end]
            changes += [np.full(len(part), number), np.full(len(part), -number)]
    edges = np.concatenate(rows)
    order = np.argsort(edges, kind="stable")
    lengths = np.diff(edges[order], append=len(trace))
    return np.repeat(np.cumsum(np.concatenate(changes)[order]).astype(np.int8), lengths)


def within(trace: Trace, rows: Int64, chosen: Mask) -> Mask:
    """Mask of the ``rows`` that are ``chosen`` or begin in their track before a chosen one ends;
    ``rows`` are in order of the trace."""
    bounds = np.searchsorted(rows, track_bounds(trace))
    compiled = native.compiled()
    if compiled:
        return native.within(compiled, trace, bounds, rows, chosen)
    mask: Mask = chosen.copy()
    for first, last in pairwise(bounds.tolist()):
        mine, start = chosen[first:last], trace.start[rows[first:last]]
        ends = np.where(mine, trace.ends_of(rows[first:last]), np.iinfo(np.int64).min)
        mask[first:last] |= start < np.maximum.accumulate(ends)
    return mask


@once
def track_bounds(trace: Trace) -> Int64:
    """Where each track begins, and the last one ends."""
    return np.searchsorted(trace.track, np.arange(len(trace.tracks) + 1))
