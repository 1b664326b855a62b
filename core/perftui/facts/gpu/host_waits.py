"""Where the host waits for the GPU, what it waits for, and what that costs the step.

Each wait uses up the host's lead over the GPU: without it, everything later would be launched that
much earlier. So it costs the idle time that follows, up to its own length, whether the next kernel
is late or a later one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import msgspec
import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.intervals import EMPTY, Intervals, mask_of, subtract, union, unite
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.analysis.ops.calls import launch_of, link
from perftui.facts.fact import Facts, fact, notes_of, trace_fact
from perftui.facts.gpu.idle import gap_times
from perftui.facts.step.trace_steps import TraceSteps, gpu_steps, trace_steps
from perftui.trace.model import CPU_OP, MEMCPY, NONE, Int64, Mask, Trace
from perftui.trace.text import printable

SMALL = 4096
"""Bytes of a call to the host up to which it reads values rather than moves data: for so few the
wait is the cost, not the copy."""

_TO_DEVICE = re.compile(r"HtoD|HostToDevice|H2D|Host -> Device|(Pageable|Pinned) -> Device", re.I)
_TO_HOST = re.compile(r"DtoH|DeviceToHost|D2H|Device -> (Host|Pageable|Pinned)", re.I)
_PAGEABLE = re.compile("pageable", re.I)
_WAITING_OP = re.compile(
    r"aten::(item|_local_scalar_dense|is_nonzero|nonzero\w*|masked_select|index\w*|_index_put_impl_"
    r"|to|_to_copy|copy_|unique\w*|_unique2|repeat_interleave|bincount|equal|allclose|tolist|where)$"
)
"""Operators that a person calls and that wait internally."""

_OF_ITS_OWN = (GapCause.QUEUED, GapCause.INITIALISATION, GapCause.COMPILATION)
"""Causes of gaps that an earlier launch would not remove, or that only occur at first use."""

_DEEPEST = 8
"""Levels of operators around a wait that are examined."""


@dataclass(frozen=True, eq=False)
class Copies:
    """Copies between host and device in the steady steps; columns as long as ``rows``."""

    rows: Int64
    launch: Int64
    """The call that launched each copy; NONE if it is not in the file."""
    outer: Int64
    """The operator that a person calls for the copy, else the launching call."""
    size: Int64
    to_device: Mask
    pageable: Mask


@dataclass(frozen=True, eq=False)
class HostWaits:
    """Waits of the launching threads in the steady steps; columns as long as ``rows``."""

    steps: TraceSteps
    rows: Int64
    """The operator that a person calls, else the call; in order of time."""
    reads: Mask
    """Which are for a value, or just for the GPU, not for data that is moved."""
    lasting: Int64
    """ns that reading a value takes, or that a copy blocks; without time to allocate memory."""
    cost: Int64
    """Idle time of the device caused by each wait, ns in all steps."""
    idle: int
    """Idle time of the device that the host could have filled, ns in all steps."""


@trace_fact
def host_copies(analysis: TraceAnalysis) -> Copies:
    """Copies between host and busiest device that begin in the steady steps. Unknown if the trace
    shows no GPU."""
    steps, trace = gpu_steps(analysis), analysis.trace
    rows = np.flatnonzero(trace.in_category(MEMCPY) & steps.on_device).astype(np.int64)
    rows = rows[steps.inside[rows]]
    to_device, to_host = (kinds.named(trace, way.search) for way in (_TO_DEVICE, _TO_HOST))
    rows = rows[to_device[rows] | to_host[rows]]
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    launch = launch_of(trace, rows)
    return Copies(
        rows,
        launch,
        outermost(trace, launch),
        trace.bytes[rows].astype(np.int64),
        to_device[rows],
        kinds.named(trace, _PAGEABLE.search)[rows],
    )


@trace_fact
def host_waits(analysis: TraceAnalysis) -> HostWaits:
    """Waits of the host for the GPU. Unknown if the trace shows no GPU."""
    steps, copies, trace = gpu_steps(analysis), host_copies(analysis), analysis.trace
    waits = _waits(trace, steps)
    # A pageable copy goes through a buffer of the driver: its call lasts until that is done.
    calls = np.concatenate((waits, copies.launch[copies.pageable & (copies.launch != NONE)]))
    rows = np.unique(outermost(trace, calls))
    rows = rows[rows != NONE]
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    # Waits that begin during another one are part of it.
    start = trace.start[rows]
    reach = np.concatenate((start[:1], np.maximum.accumulate(trace.ends_of(rows))[:-1]))
    rows = rows[start >= reach]
    idle, reads = idle_of_host(analysis), _reads(rows, copies)
    lasting = _lasting(trace, rows, reads, calls)
    cost = _costs(trace.start[rows], lasting, idle, repeats=steps.steps > 0)
    return HostWaits(steps, rows, reads, lasting, cost, idle.total)


def outermost(trace: Trace, rows: Int64) -> Int64:
    """The outermost operator around each of ``rows`` that waits internally, else the row; NONE
    stays."""
    waits, is_op = kinds.named(trace, _WAITING_OP.match), trace.in_category(CPU_OP)
    outer, above = rows.copy(), rows.copy()
    for _ in range(_DEEPEST):
        above = kinds.callers(trace, above)
        outer = np.where((above != NONE) & waits[above] & is_op[above], above, outer)
    result: Int64 = outer.astype(np.int64)
    return result


def _waits(trace: Trace, steps: TraceSteps) -> Int64:
    """Waiting calls of threads that launch device work, while more work follows: at the end of a
    window the profiler itself waits."""
    links = link(trace)
    launch = links.launch[steps.on_device[links.activity] & (links.launch != NONE)]
    tracks = mask_of(len(trace.tracks) + 1, trace.track[launch], [main_track(trace)])
    waits = np.flatnonzero(kinds.synchronising(trace)).astype(np.int64)
    if kinds.launches(trace).any():
        # An operator that reads a CPU value does not wait: if there are calls, only they count.
        waits = waits[kinds.launches(trace)[waits]]
    mine = tracks[trace.track[waits]] & kinds.on_cpu(trace)[waits]
    mine &= steps.inside[waits]
    if len(launch):
        mine &= trace.start[waits] < trace.start[launch].max()
    return waits[mine]


def _reads(rows: Int64, copies: Copies) -> Mask:
    """Which of ``rows`` copy nothing to the device, and no more than values from it."""
    sizes = Counter[int]()
    for outer, size in zip(copies.outer.tolist(), copies.size.tolist(), strict=True):
        sizes[outer] += max(size, 0)
    is_small = np.array([sizes[row] <= SMALL for row in rows.tolist()], dtype=bool)
    return is_small & ~np.isin(rows, copies.outer[copies.to_device])


def _lasting(trace: Trace, rows: Int64, reads: Mask, calls: Int64) -> Int64:
    """ns lost in each of ``rows``: all of a read, as it only serves its value; of a copy, which is
    needed anyway, only what its ``calls`` block."""
    start, end = trace.start[rows], trace.ends_of(rows)
    near = kinds.believable(trace)
    calls = calls[near[calls]]
    getting = kinds.busy(trace, kinds.allocating(trace) & near).within(start, end)
    return np.where(reads, end - start - getting, kinds.busy(trace, calls).within(start, end))


@trace_fact
def busy(analysis: TraceAnalysis) -> Intervals:
    """When the busiest device does anything; empty without a device."""
    trace, steps = analysis.trace, trace_steps(analysis)
    if steps is None:
        return EMPTY
    rows = link(trace).activity
    return kinds.busy(trace, rows[steps.on_device[rows]])


@trace_fact
def idle_of_host(analysis: TraceAnalysis) -> Intervals:
    """Idle time of the device in the steady steps that a host with more lead would fill: not
    waits for data, nor profiler, first uses, or time with queued work. Unknown if the trace
    shows no GPU."""
    steps, trace = gpu_steps(analysis), analysis.trace
    idle = subtract(steps.times, busy(analysis))
    marks = (kinds.input_wait(trace) | kinds.profiling(trace)) & kinds.believable(trace)
    idle = subtract(idle, kinds.busy(trace, marks))
    return subtract(idle, gaps_of(steps, _OF_ITS_OWN))


def gaps_of(steps: TraceSteps, causes: Collection[GapCause]) -> Intervals:
    """Listed gaps of the judged device mostly explained by one of ``causes``."""
    every = gap_times(steps.analysis)
    gaps = [every[cause] for cause in causes if cause in every]
    of_device = (times[1:, times[0] == steps.device] for times in gaps)
    return unite(*(union(start, end) for start, end in of_device))


def _costs(start: Int64, lasting: Int64, idle: Intervals, *, repeats: bool) -> Int64:
    """Idle time that each wait causes, split in proportion to their lengths."""
    if not len(start):
        return np.zeros(0, dtype=np.int64)
    before = idle.before(start)
    # Where steps repeat, idle time before the first wait follows the last one.
    until_next = np.append(before[1:], idle.total + before[0] * repeats) - before
    # Lead not used up by idle time before the next wait remains for later.
    walk = np.cumsum(np.tile(lasting - until_next, 2))
    left = walk - np.minimum(np.minimum.accumulate(walk), 0)
    used = int((left[len(start) - 1 : -1] + lasting - left[len(start) :]).sum())
    until = np.concatenate(([0], np.cumsum(lasting)))
    until = np.rint(until * (used / max(int(until[-1]), 1))).astype(np.int64)
    return until[1:] - until[:-1]


MOST_CALLS = 20
"""Most calls listed, the longest first."""


@dataclass(frozen=True)
class SyncCall:
    """Calls of one kind at one line; times in ns. Texts are safe to show."""

    call: str
    """The call as people write it: ``item``, ``x[mask]``."""
    file: str
    line: int
    function: str
    count: int
    time: int
    """ns of all these calls: on a GPU mostly waiting for it. -1 if unknown, like the longest: torch
    then only reports that they waited."""
    longest: int

    @property
    def source(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"

    @property
    def short(self) -> str:
        """``item at train.py:31``."""
        return f"{self.call} at {PurePath(self.file).name}:{self.line}"


@dataclass(frozen=True)
class SyncCalls:
    """Synchronizing calls in the windows of a rank, the longest first."""

    calls: tuple[SyncCall, ...]
    steps: int
    """Profiled steps in which they were counted."""
    on_gpu: bool
    """Whether the calls waited for a GPU; else they would, if the training used one."""

    @property
    def title(self) -> str:
        """Title of the list."""
        return "Calls that wait for the GPU" if self.on_gpu else "Calls that would wait for a GPU"


class _Counted(msgspec.Struct):
    gpu: bool
    calls: list[SyncCall]


@fact
def syncs(facts: Facts) -> SyncCalls | None:
    """Calls that make the host wait for the GPU; None if not counted.

    If a training began to use its GPU later, only windows with the GPU count."""
    counted = [window for data in notes_of(facts.events, "window") for window in _read(data)]
    on_gpu = any(window.gpu for window, _ in counted)
    chosen = [(window, steps) for window, steps in counted if window.gpu is on_gpu]
    steps = sum(steps for _, steps in chosen)
    if not steps:
        return None
    calls: dict[tuple[str, str, int], SyncCall] = {}
    for window, _ in chosen:
        for call in window.calls:
            key = (call.call, call.file, call.line)
            if (sofar := calls.get(key)) is None:
                calls[key] = call
                continue
            is_known = sofar.time >= 0 and call.time >= 0
            calls[key] = replace(
                sofar,
                count=sofar.count + call.count,
                time=sofar.time + call.time if is_known else -1,
                longest=max(sofar.longest, call.longest) if is_known else -1,
            )
    shown = (
        replace(
            call,
            call=printable(call.call),
            file=printable(call.file),
            function=printable(call.function),
        )
        for call in calls.values()
    )
    order = sorted(shown, key=lambda call: (-call.time, call.source, call.call))
    return SyncCalls(tuple(order[:MOST_CALLS]), steps, on_gpu)


def _read(data: Mapping[str, Any]) -> list[tuple[_Counted, int]]:
    """Calls in a window and its number of steps; empty if it has none, or is damaged."""
    steps = data.get("steps")
    if "syncs" not in data or not isinstance(steps, int) or steps <= 0:
        return []
    try:
        return [(msgspec.convert(data["syncs"], _Counted), steps)]
    except msgspec.ValidationError:
        return []
