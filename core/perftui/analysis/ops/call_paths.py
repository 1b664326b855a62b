"""The tree of calls from the top: who calls whom, and the time of each path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import sums
from perftui.analysis.ops.calls import Calls, call_times, callers_of, innermost, levels
from perftui.trace.model import NONE, PYTHON, Int32, Int64, Mask, Trace


@dataclass(frozen=True, eq=False)
class PathNode:
    """All calls of one group made along one path of callers.

    Calls along one path never contain each other, so totals are plain sums: the total of a node is
    its own time and the totals of what it calls, to the nanosecond.
    """

    label: str
    path: tuple[int, ...]
    """Groups from the outermost caller to this one."""
    rows: Int64
    calls: int
    cpu_total: int
    cpu_self: int
    device_total: int
    device_self: int
    calls_others: bool
    """Whether there is anything below it."""


class CallPaths:
    """The tree; nodes are made on request, and cached.

    The first node takes as long as the times of all calls, any other as long as its calls.
    """

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        above = calls.callers[calls.rows]
        order = np.argsort(above, kind="stable")
        self._callees = calls.rows[order]
        self._callers = above[order].astype(np.int64)
        self._known: dict[tuple[int, ...], tuple[PathNode, ...]] = {}

    def roots(self) -> tuple[PathNode, ...]:
        """Calls without a caller, most time first."""
        return self._nodes((), np.array([NONE], dtype=np.int64))

    def below(self, node: PathNode) -> tuple[PathNode, ...]:
        """What ``node`` calls, most time first."""
        return self._nodes(node.path, node.rows)

    def _nodes(self, path: tuple[int, ...], callers: Int64) -> tuple[PathNode, ...]:
        if path not in self._known:
            begin = np.searchsorted(self._callers, callers, side="left")
            counts = np.searchsorted(self._callers, callers, side="right") - begin
            offsets = np.cumsum(counts) - counts
            places = np.repeat(begin - offsets, counts) + np.arange(int(counts.sum()))
            self._known[path] = self._made(path, self._callees[places])
        return self._known[path]

    def _made(self, path: tuple[int, ...], rows: Int64) -> tuple[PathNode, ...]:
        calls = self.calls
        groups, group = np.unique(calls.trace.name[rows], return_inverse=True)
        columns = [
            sums(group, column[rows], len(groups)).tolist()
            for column in (*calls.times, calls.launched)
        ]
        at = np.searchsorted(self._callers, rows)
        calls_others = self._callers[np.minimum(at, len(self._callers) - 1)] == rows
        order = np.argsort(group, kind="stable")
        counts = np.bincount(group, minlength=len(groups))
        parts = np.split(rows[order], np.cumsum(counts)[:-1]) if len(groups) else []
        nodes = [
            PathNode(
                label=calls.labels[number],
                path=(*path, number),
                rows=part,
                calls=len(part),
                cpu_total=total,
                cpu_self=own,
                device_total=under,
                device_self=launched,
                calls_others=others,
            )
            for number, part, others, total, own, under, launched in zip(
                groups.tolist(),
                parts,
                (np.bincount(group, calls_others, len(groups)) > 0).tolist(),
                *columns,
                strict=True,
            )
        ]
        return tuple(sorted(nodes, key=lambda node: (-node.device_total, -node.cpu_total)))

    def leading_to(self, groups: Mask) -> Mask:
        """Rows of calls of ``groups``, with all of their callers."""
        mask = np.zeros(len(self.calls.trace), dtype=bool)
        current = self.calls.rows[groups[self.calls.trace.name[self.calls.rows]]]
        while len(current):
            mask[current] = True
            above = self.calls.callers[current]
            current = np.unique(above[above != NONE])
            current = current[~mask[current]]
        return mask


@dataclass(frozen=True)
class StackTime:
    """All calls made along one path of callers on one thread."""

    track: int
    """Index into ``Trace.tracks``."""
    names: tuple[str, ...]
    """From the outermost caller on; text as in the trace."""
    own: int
    """ns outside all callees, above 0."""


def stack_times(trace: Trace) -> Iterator[StackTime]:
    """Every stack with time of its own, in arbitrary order.

    A call lasts at most until its caller ends. The times of a thread sum to the united time of its
    outermost calls.
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
    """The trace with each outermost call cut to begin after earlier ones on its thread.

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
            # Rows are in order of their start: callees come before the next outermost call.
            last = calls[number + 2] if number + 2 < len(calls) else stop
            within = slice(int(calls[number + 1]), int(last))
            ends = np.maximum(trace.ends_of(within), reach[number])
            start[within] = np.maximum(start[within], reach[number])
            duration[within] = ends - start[within]
    return replace(trace, start=start, duration=duration)


def _numbered(
    trace: Trace, rows: Int64, callers: Int32
) -> tuple[Int64, list[tuple[int, int, int]]]:
    """Index of each row's stack, and by index its track, the index of the stack around it (NONE at
    the top) and the index of its last name."""
    stack = np.full(len(trace), NONE, dtype=np.int64)
    stacks: list[tuple[int, int, int]] = []
    # At the top, the track takes the place of a surrounding stack.
    around = np.where(callers == NONE, -1 - trace.track.astype(np.int64), 0)
    for level in levels(trace, rows):
        inner = level[callers[level] != NONE]
        around[inner] = stack[callers[inner]]
        keys = around[level] * len(trace.names) + trace.name[level]
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        stack[level] = len(stacks) + which
        for row in level[first].tolist():
            at = int(around[row])
            stacks.append((int(trace.track[row]), max(at, NONE), int(trace.name[row])))
    return stack, stacks
