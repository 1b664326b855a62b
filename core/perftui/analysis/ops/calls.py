"""The calls of a trace in groups, by name or another property."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import first_longest, sums, union
from perftui.analysis.kinds import once
from perftui.analysis.model import OpTable
from perftui.trace.model import CPU_OP, NONE, Int32, Int64, Ints, Mask, Trace


def innermost(trace: Trace, wanted: Mask) -> Int32:
    """For each row, the nearest ``wanted`` row among itself and its callers, or NONE."""
    # Each row points to itself or its caller, NONE (-1) to itself at the end; each turn doubles the
    # callers that are passed.
    nearest = np.where(wanted, np.arange(len(trace), dtype=np.int32), trace.parent)
    nearest = np.append(nearest, np.int32(NONE))
    while not np.array_equal(nearest, further := nearest[nearest]):
        nearest = further
    return nearest[:-1]


@once
def innermost_operator(trace: Trace) -> Int32:
    """For each row, the operator that it is or is directly inside, or NONE."""
    return innermost(trace, kinds.operators(trace))


class Called(NamedTuple):
    """Columns about some rows."""

    rows: Int64
    caller: Int32
    """Position of the nearest operator among the callers; NONE if it is not among the rows."""
    own: Int64
    """Time without called rows, ns."""


def called_operators(trace: Trace, chosen: Mask) -> Called:
    """The ``chosen`` operators of the trace, with callers and own times."""
    rows = np.flatnonzero(chosen)
    position = np.full(len(trace) + 1, NONE, dtype=np.int32)
    position[rows] = np.arange(len(rows))
    above = trace.parent[rows]
    caller = position[np.where(above == NONE, NONE, innermost_operator(trace)[above])]
    called = caller != NONE
    spent = np.bincount(caller[called], trace.duration[rows][called], len(rows)).astype(np.int64)
    return Called(rows, caller, np.maximum(trace.duration[rows] - spent, 0))


def callers_of(trace: Trace, around: Int32) -> Int32:
    """The caller of each row: the nearest wanted row among its callers, or NONE."""
    callers = around[trace.parent]
    callers[trace.parent == NONE] = NONE
    return callers


def recursive(trace: Trace, rows: Int64, callers: Int32) -> Mask:
    """Which of ``rows`` run inside a row of the same name."""
    inside = np.zeros(len(rows), dtype=bool)
    current = callers[rows]
    active = np.flatnonzero(current != NONE)
    while len(active):
        inside[active] |= trace.name[current[active]] == trace.name[rows[active]]
        current[active] = callers[current[active]]
        active = active[(current[active] != NONE) & ~inside[active]]
    return inside


class CallTimes(NamedTuple):
    """Nanoseconds by row."""

    lasting: Int64
    """Duration of each call, at most until its caller ends, ns."""
    own: Int64
    """The part of ``lasting`` outside callees, ns."""
    under: Int64
    """Device time launched by the call and its callees, ns."""


def call_times(trace: Trace, rows: Int64, callers: Int32, device: Int64) -> CallTimes:
    """Times of ``rows``; ``device`` is the device time launched directly by each row."""
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


def levels(trace: Trace, rows: Int64) -> Iterator[Int64]:
    """``rows`` by depth, callers before what they call."""
    depth = trace.depth[rows]
    order = np.argsort(depth, kind="stable")
    for level in np.split(rows[order], np.flatnonzero(np.diff(depth[order])) + 1):
        if len(level):
            yield level


@dataclass(frozen=True, eq=False)
class Links:
    """Columns as long as ``activity``, the rows of kernels, copies and sets by start."""

    activity: Int64
    launch: Int64
    """Row of the launching call, shared by the kernels of a graph launch. NONE if missing."""
    operator: Int64
    """Innermost operator around the launch, or by external id if the launch is not in the file;
    else NONE."""


@once
def link(trace: Trace) -> Links:
    """Find launches by correlation id, operators by nesting or external id."""
    rows = np.flatnonzero(kinds.device_activity(trace))
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    launch = matching(trace.correlation, rows, kinds.launches(trace))
    by_id = matching(trace.external_id, rows, kinds.operators(trace))
    operator = np.where(launch == NONE, NONE, innermost_operator(trace)[launch])
    return Links(rows, launch, np.where(operator == NONE, by_id, operator))


@once
def _launches(trace: Trace) -> Int32:
    links = link(trace)
    result = np.full(len(trace), NONE, dtype=np.int32)
    result[links.activity] = links.launch
    return result


def launch_of(trace: Trace, rows: Int64) -> Int64:
    """The call that launched each of ``rows``; NONE if not in the file."""
    return _launches(trace)[rows].astype(np.int64)


def matching(key: Ints, rows: Int64, among: Mask) -> Int64:
    """For each of ``rows``, the first row ``among`` others with its key; NONE without one."""
    candidates = np.flatnonzero(among & (key != NONE))
    if not len(candidates) or not len(rows):
        return np.full(len(rows), NONE, dtype=np.int64)
    ordered = candidates[np.argsort(key[candidates], kind="stable")]
    hit = ordered[np.minimum(np.searchsorted(key[ordered], key[rows]), len(ordered) - 1)]
    return np.where(key[hit] == key[rows], hit, NONE)


def shared_correlations(trace: Trace) -> int:
    """Number of correlation ids shared by calls of several processes, as in merged files: which of
    them launched an activity is unknown."""
    processes: dict[str, int] = {}
    of_track = [processes.setdefault(track.process, len(processes)) for track in trace.tracks]
    calls = np.flatnonzero(kinds.launches(trace) & (trace.correlation != NONE))
    process = np.array(of_track, dtype=np.int64)[trace.track[calls]]
    if not len(calls) or np.all(process == process[0]):
        return 0
    # With calls sorted by id, two neighbours with one id and two processes are enough.
    order = np.argsort(trace.correlation[calls], kind="stable")
    ids, process = trace.correlation[calls][order], process[order]
    shared = (ids[1:] == ids[:-1]) & (process[1:] != process[:-1])
    return len(np.unique(ids[1:][shared]))


@dataclass(frozen=True, eq=False)
class Calls:
    """Some rows of a trace, each in one group; every other row is part of the one around it.

    A call lasts at most until its caller ends; inside another of its group it adds to no total.
    """

    trace: Trace
    """With each row's group as its name, and the labels of groups as names."""
    links: Links
    around: Int32
    """For each row, the nearest call among itself and its callers, or NONE."""

    @classmethod
    def of(cls, trace: Trace, wanted: Mask, group: Int32, labels: Sequence[str]) -> Calls:
        """Calls among the ``wanted`` rows; ``group`` has the index of each row's label."""
        named = replace(trace, name=group, names=tuple(labels))
        return cls(named, link(trace), innermost(trace, wanted))

    @classmethod
    def of_labels(cls, trace: Trace, wanted: Mask, group: Int32, labels: Sequence[str]) -> Calls:
        """Calls among the ``wanted`` rows, with groups of equal labels merged."""
        distinct = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        if len(distinct) < len(labels):
            group = np.array([distinct[label] for label in labels], dtype=np.int32)[group]
        return cls.of(trace, wanted, group, tuple(distinct))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the groups."""
        return self.trace.names

    @cached_property
    def rows(self) -> Int64:
        """The calls, in order of the trace."""
        return np.flatnonzero(self.around == np.arange(len(self.trace)))

    @cached_property
    def callers(self) -> Int32:
        """The caller of each row, or NONE."""
        return callers_of(self.trace, self.around)

    @cached_property
    def launchers(self) -> Int64:
        """The innermost call around the launch of each of ``links.activity``, else around its
        operator; NONE if neither is in a call."""
        launch, operator = self.links.launch, self.links.operator
        if not len(self.around):
            return np.full(len(launch), NONE, np.int64)
        by_launch = np.where(launch == NONE, NONE, self.around[launch])
        by_operator = np.where(operator == NONE, NONE, self.around[operator])
        return np.where(by_launch == NONE, by_operator, by_launch).astype(np.int64)

    @cached_property
    def launched(self) -> Int64:
        """Device time launched directly by each row, ns."""
        linked = self.launchers != NONE
        lasting = self.trace.duration[self.links.activity[linked]]
        return sums(self.launchers[linked], lasting, len(self.trace))

    @cached_property
    def times(self) -> CallTimes:
        """Times of each row's call."""
        return call_times(self.trace, self.rows, self.callers, self.launched)

    def table(self) -> OpTable:
        """A row for each group with calls, most self time first (device, then CPU)."""
        trace, rows, count = self.trace, self.rows, len(self.labels)
        outermost = rows[~recursive(trace, rows, self.callers)]
        first = first_longest(trace.name[rows], trace.duration[rows], count)

        def summed(values: Int64, of: Int64) -> Int64:
            return sums(trace.name[of], values[of], count)

        columns = {
            "calls": np.bincount(trace.name[rows], minlength=count),
            "cpu_total": summed(self.times.lasting, outermost),
            "cpu_self": summed(self.times.own, rows),
            "device_total": summed(self.times.under, outermost),
            "device_self": summed(self.launched, rows),
        }
        groups = np.flatnonzero(columns["calls"])
        order = groups[np.lexsort((-columns["cpu_self"][groups], -columns["device_self"][groups]))]
        return OpTable(
            names=tuple(self.labels[number] for number in order.tolist()),
            first_row=rows[first[order]],
            **{name: column[order] for name, column in columns.items()},
        )


def op_calls(trace: Trace) -> Calls:
    """The operators by name."""
    return Calls(trace, link(trace), innermost_operator(trace))


# As ``nvtx_sum`` and ``cuda_api_sum`` of ``nsys stats``, except for the time of names nested in
# themselves: here a moment counts once for each thread, not once for each level.


@dataclass(frozen=True, eq=False)
class NameSums:
    """A row for each name, most time first; every column as long as ``names``, times in ns."""

    names: tuple[str, ...]
    calls: Int64
    total: Int64
    """Time in which any was open, summed over threads: nested or overlapping ones of the same name
    and thread add nothing."""
    mean: Int64
    """Mean length, rounded down; times ``calls`` it exceeds ``total`` if ranges nest."""
    shortest: Int64
    longest: Int64
    first_row: Int64
    """Trace row of the longest one of each, to jump to."""

    def __len__(self) -> int:
        return len(self.names)


def range_sums(trace: Trace) -> NameSums:
    """Ranges on CPU threads: all of NVTX in an export of nsys, else those marked by the script,
    PyTorch or perftui. MPI calls of nsys are ranges; numbers after the name of ranges that PyTorch
    marks for NVTX are left out, as they are all different."""
    marked = kinds.ranges(trace)
    return name_sums(trace, marked | trace.in_category(CPU_OP) if is_of_nsys(trace) else marked)


def call_sums(trace: Trace) -> NameSums:
    """Calls of the runtime and the driver: of CUDA, or its counterpart on other devices."""
    return name_sums(trace, kinds.launches(trace))


def is_of_nsys(trace: Trace) -> bool:
    """Whether nsys recorded it: then operators were marked by NVTX."""
    from perftui.trace.nsys.columns import RowReader

    return isinstance(trace.read_arguments, RowReader)


def name_sums(trace: Trace, chosen: Mask) -> NameSums:
    """The ``chosen`` rows by name."""
    rows = np.flatnonzero(chosen).astype(np.int64)
    numbers, group = np.unique(trace.name[rows], return_inverse=True)
    lengths, count = trace.duration[rows], len(numbers)
    calls = np.bincount(group, minlength=count).astype(np.int64)
    summed = sums(group, lengths, count)
    shortest = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(shortest, group, lengths)
    first = first_longest(group, lengths, count)
    total = summed - _counted_twice(trace, rows, group, count)
    order = np.argsort(-total, kind="stable")
    return NameSums(
        tuple(trace.names[int(numbers[at])] for at in order),
        calls[order],
        total[order],
        (summed // np.maximum(calls, 1))[order],
        shortest[order],
        lengths[first][order],
        rows[first][order],
    )


def _counted_twice(trace: Trace, rows: Int64, group: Int64, count: int) -> Int64:
    """For each group, the sum of its rows' lengths minus the time they cover on each thread."""
    order = np.lexsort((trace.start[rows], trace.track[rows], group))
    start, end = trace.start[rows[order]], trace.ends_of(rows[order])
    of_thread = group[order] * max(len(trace.tracks), 1) + trace.track[rows[order]]
    # In order of start, any overlap shows between two neighbours.
    beside = of_thread[1:] == of_thread[:-1]
    overlapping = np.unique(of_thread[1:][beside & (start[1:] < end[:-1])])
    twice = np.zeros(count, dtype=np.int64)
    lows = np.searchsorted(of_thread, overlapping, side="left")
    highs = np.searchsorted(of_thread, overlapping, side="right")
    for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
        covered = union(start[low:high], end[low:high]).total
        twice[group[order[low]]] += int((end[low:high] - start[low:high]).sum()) - covered
    return twice
