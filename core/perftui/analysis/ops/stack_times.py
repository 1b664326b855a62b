"""The own time of each distinct stack of operators and Python functions, thread by thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.grouping import sums
from perftui.analysis.ops.call_tree import call_times, callers_of, innermost
from perftui.trace.categories import PYTHON
from perftui.trace.model import NONE, Int32, Int64, Trace


@dataclass(frozen=True)
class StackTime:
    """All calls that were made along one path of callers on one thread."""

    track: int
    """Index into ``Trace.tracks``."""
    names: tuple[str, ...]
    """From the outermost caller on; text as the trace has it."""
    own: int
    """ns in none of its callees, above 0."""


def stack_times(trace: Trace) -> Iterator[StackTime]:
    """Every stack that has time of its own, in no certain order.

    A call lasts until its caller ends, at the latest. The times of a thread sum to the united time
    of its outermost calls.
    """
    wanted = kinds.on_thread(trace) & (kinds.operators(trace) | trace.in_category(PYTHON))
    rows = np.flatnonzero(wanted)
    callers = callers_of(trace, innermost(trace, wanted))
    apart = _one_at_a_time(trace, rows[callers[rows] == NONE])
    own = call_times(apart, rows, callers, np.zeros(len(trace), dtype=np.int64)).own
    stack, stacks = _numbered(trace, rows, callers)
    totals = sums(stack[rows], own[rows], len(stacks))
    for number in np.flatnonzero(totals > 0).tolist():
        names, at = [], number
        while at != NONE:
            track, at, name = stacks[at]
            names.append(trace.names[name])
        yield StackTime(track, tuple(reversed(names)), int(totals[number]))


def _one_at_a_time(trace: Trace, outermost: Int64) -> Trace:
    """The trace with each outermost call cut to when those before it on its thread have ended.

    Calls of old files, in whole microseconds, outlast the marks around them and overlap the next.
    """
    start, duration = trace.start.copy(), trace.duration.copy()
    edges = np.searchsorted(trace.track[outermost], np.arange(len(trace.tracks) + 1))
    for track in range(len(trace.tracks)):
        calls = outermost[edges[track] : edges[track + 1]]
        reach = np.maximum.accumulate(trace.ends_of(calls))[:-1]
        late = np.flatnonzero(reach > trace.start[calls[1:]])
        stop = int(np.searchsorted(trace.track, track, side="right"))
        for number in late.tolist():
            # Rows are in order of their start: what it calls comes before the next.
            last = calls[number + 2] if number + 2 < len(calls) else stop
            within = slice(int(calls[number + 1]), int(last))
            ends = np.maximum(trace.ends_of(within), reach[number])
            start[within] = np.maximum(start[within], reach[number])
            duration[within] = ends - start[within]
    return replace(trace, start=start, duration=duration)


def _numbered(
    trace: Trace, rows: Int64, callers: Int32
) -> tuple[Int64, list[tuple[int, int, int]]]:
    """The number of the stack of each row, and by number its track, the number of the stack around
    it (NONE at the top) and the index of its last name."""
    stack = np.full(len(trace), NONE, dtype=np.int64)
    stacks: list[tuple[int, int, int]] = []
    # At the top the track stands for what is around.
    around = np.where(callers == NONE, -1 - trace.track.astype(np.int64), 0)
    for level in _levels(trace, rows):
        inner = level[callers[level] != NONE]
        around[inner] = stack[callers[inner]]
        keys = around[level] * len(trace.names) + trace.name[level]
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        stack[level] = len(stacks) + which
        for row in level[first].tolist():
            at = int(around[row])
            stacks.append((int(trace.track[row]), max(at, NONE), int(trace.name[row])))
    return stack, stacks


def _levels(trace: Trace, rows: Int64) -> Iterator[Int64]:
    """``rows`` by depth, callers before what they call."""
    depth = trace.depth[rows]
    order = np.argsort(depth, kind="stable")
    for level in np.split(rows[order], np.flatnonzero(np.diff(depth[order])) + 1):
        if len(level):
            yield level
