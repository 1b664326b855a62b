"""Walks the call stacks of all rows at once, compiled where ``columns/native.c`` could be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import first_longest, sums
from perftui.analysis.once import once
from perftui.trace.columns import native
from perftui.trace.model import NONE, Int32, Int64, Mask, Trace


def innermost(trace: Trace, wanted: Mask) -> Int32:
    """For each row the nearest wanted one among itself and its callers, or NONE."""
    compiled = native.compiled()
    if compiled:
        return native.innermost(compiled, trace.parent, wanted)
    found = np.where(wanted, np.arange(len(trace), dtype=np.int32), np.int32(NONE))
    for level in levels(trace, np.arange(len(trace))):
        open_rows = level[(found[level] == NONE) & (trace.parent[level] != NONE)]
        found[open_rows] = found[trace.parent[open_rows]]
    return found


@once
def innermost_operator(trace: Trace) -> Int32:
    """For each row the operator that it is, or that is nearest around it, or NONE."""
    return innermost(trace, kinds.operators(trace))


class Called(NamedTuple):
    """Columns of some rows."""

    rows: Int64
    caller: Int32
    """Position of the nearest operator among the callers, NONE where that is not of the rows."""
    own: Int64
    """Time without that of the rows that it is the caller of, ns."""


def called_operators(trace: Trace, chosen: Mask) -> Called:
    """Some operators of the trace."""
    compiled = native.compiled()
    if compiled:
        return Called(*native.called(compiled, trace, innermost_operator(trace), chosen))
    rows = np.flatnonzero(chosen)
    position = np.full(len(trace) + 1, NONE, dtype=np.int32)
    position[rows] = np.arange(len(rows))
    above = trace.parent[rows]
    caller = position[np.where(above == NONE, NONE, innermost_operator(trace)[above])]
    known = caller != NONE
    spent = np.bincount(caller[known], trace.duration[rows][known], len(rows)).astype(np.int64)
    return Called(rows, caller, np.maximum(trace.duration[rows] - spent, 0))


def sums_by_name(trace: Trace, around: Int32, device: Int64) -> dict[str, Int64]:
    """Calls, times and the longest row of each of ``trace.names``, without rows 0 or NONE.

    The rows are those that ``around``, from ``innermost``, finds for themselves; ``device`` is the
    device time that each row launched itself. A row lasts until its caller ends, at the latest;
    inside another row of its name it adds to no total.
    """
    compiled = native.compiled()
    if compiled:
        return native.sums_by_name(compiled, trace, around, device)
    callers = callers_of(trace, around)
    rows = np.flatnonzero(around == np.arange(len(trace)))
    outermost = rows[~recursive(trace, rows, callers)]
    lasting, own, under = call_times(trace, rows, callers, device)

    def summed(values: Int64, of: Int64) -> Int64:
        return sums(trace.name[of], values[of], len(trace.names))

    return {
        "calls": np.bincount(trace.name[rows], minlength=len(trace.names)),
        "cpu_total": summed(lasting, outermost),
        "cpu_self": summed(own, rows),
        "device_total": summed(under, outermost),
        "device_self": summed(device, rows),
        "first_row": _longest(trace, rows),
    }


def callers_of(trace: Trace, around: Int32) -> Int32:
    """The row that called each: the nearest wanted one among its callers, or NONE."""
    callers = around[trace.parent]
    callers[trace.parent == NONE] = NONE
    return callers


def recursive(trace: Trace, rows: Int64, callers: Int32) -> Mask:
    """Which of ``rows`` run inside one of their own name."""
    found = np.zeros(len(rows), dtype=bool)
    current = callers[rows]
    active = np.flatnonzero(current != NONE)
    while len(active):
        found[active] |= trace.name[current[active]] == trace.name[rows[active]]
        current[active] = callers[current[active]]
        active = active[(current[active] != NONE) & ~found[active]]
    return found


class CallTimes(NamedTuple):
    """Nanoseconds by row."""

    lasting: Int64
    """Duration of each call, until its caller ends at the latest, ns."""
    own: Int64
    """The part of ``lasting`` that no callee covers, ns."""
    under: Int64
    """Device time that it and its callees launched."""


def call_times(trace: Trace, rows: Int64, callers: Int32, device: Int64) -> CallTimes:
    """Times of ``rows``; ``device`` is the device time that each row launched itself."""
    end, lasting = trace.end, np.zeros(len(trace), dtype=np.int64)
    own, under = lasting.copy(), device.copy()
    by_depth = tuple(levels(trace, rows))
    for level in by_depth:
        called = level[callers[level] != NONE]
        by = callers[called]
        end[called] = np.maximum(trace.start[called], np.minimum(end[called], end[by]))
        lasting[level] = own[level] = end[level] - trace.start[level]
        np.subtract.at(own, by, lasting[called])
    for level in reversed(by_depth):
        called = level[callers[level] != NONE]
        np.add.at(under, callers[called], under[called])
    return CallTimes(lasting, own, under)


def _longest(trace: Trace, rows: Int64) -> Int64:
    found = first_longest(trace.name[rows], trace.duration[rows], len(trace.names))
    return np.where(found == NONE, 0, rows[found]) if len(rows) else np.zeros_like(found)


def levels(trace: Trace, rows: Int64) -> Iterator[Int64]:
    """``rows`` by depth, callers before what they call."""
    depth = trace.depth[rows]
    order = np.argsort(depth, kind="stable")
    for level in np.split(rows[order], np.flatnonzero(np.diff(depth[order])) + 1):
        if len(level):
            yield level
