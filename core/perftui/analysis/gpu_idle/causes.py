"""Why a device is idle, to the nanosecond: idle time split by the launching thread's activity.

A kernel whose launch ends after the device became idle was launched late: until then the state of
the launching thread is the cause. A short time after the launch is part of launching, and then the
kernel waits in a queue, as does one launched before the device became idle. While the host waits in
a synchronising call the device is busy; the cost comes after it, when the queue is empty.
``_drained`` returns how much of the time after counts as synchronisation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import (
    EMPTY,
    Intervals,
    complement,
    intersect,
    subtract,
    union,
    unite,
)
from perftui.analysis.kinds import once
from perftui.analysis.model import GapCause
from perftui.analysis.ops.calls import Links, innermost_operator
from perftui.trace.model import NONE, Int64, Mask, Trace

_VIEW = re.compile(
    r"aten::(t|T|transpose|permute|view|_unsafe_view|_reshape_alias|view_as\w*|unsqueeze|squeeze"
    r"|narrow|slice|select|unbind|split\w*|chunk|expand\w*|as_strided|unfold|unflatten\w*|diagonal"
    r"|detach|alias|empty\w*|result_type|lift_fresh|set_|resize_|is_\w+)_?$"
)

COMPUTES = 100_000
"""ns without recorded events from which an operator of PyTorch without any driver call computes on
the CPU: its work before a launch takes 1 to 50 us, also on slow hosts."""

SILENT = 1_000_000
"""ns without recorded events from which an operator of the script's own computes something."""

SETS_UP = 5_000_000
"""ns without recorded events from which an operator of PyTorch that launches something loads or
chooses it first: less may be an interruption."""


class HostWork(NamedTuple):
    """Disjoint times of one thread's operators."""

    computing: Intervals
    """In operators that compute on the CPU."""
    setting_up: Intervals
    """In operators of PyTorch that launch something after a long silence: they load a library or
    search for the best algorithm. PyTorch's CPU computing is in other operators."""


def host_work(trace: Trace, track: int) -> HostWork:
    """Such times on the thread of ``track``: intervals in which nothing else begins or ends."""
    here = (trace.track == track) & kinds.believable(trace)
    called = np.flatnonzero(here & kinds.launches(trace))
    rows = np.flatnonzero(here & kinds.operators(trace))
    starts, ends = trace.start[rows], trace.ends_of(rows)
    calls = kinds.busy(trace, called)
    first_calls = np.sort(trace.start[called])
    calls_none = np.searchsorted(first_calls, starts) == np.searchsorted(first_calls, ends)

    own = kinds.of_pytorch(trace)[rows]
    others = ~own & ~kinds.of_autograd(trace)[rows]
    chosen = (_only_views(trace)[rows], own & calls_none, own & ~calls_none, others)
    views, alone, launching, other = (kinds.busy(trace, rows[mask]) for mask in chosen)
    # Start and end, a row each, of intervals of at least ``COMPUTES`` without any of these times.
    ordered = np.sort(np.concatenate([starts, ends, calls.start, calls.end]))
    long = np.flatnonzero(np.diff(ordered) >= COMPUTES)
    silent = np.stack([ordered[long], ordered[long + 1]], axis=1)
    silent = silent[~unite(views, calls).holds(silent[:, 0])]
    at, lasting = silent[:, 0], silent[:, 1] - silent[:, 0]
    computes, launches = alone.holds(at), launching.holds(at)
    sets_up = ~computes & launches & (lasting >= SETS_UP)
    computes |= ~launches & other.holds(at) & (lasting >= SILENT)
    return HostWork(union(*silent[computes].T), union(*silent[sets_up].T))


@once
def _only_views(trace: Trace) -> Mask:
    """Operators that never touch tensor contents: a long one was interrupted."""
    return kinds.operators(trace) & kinds.named(trace, _VIEW.match)


States = Mapping[GapCause, Intervals]
"""Exclusive: at most one of them covers any moment."""

_BY_PRECEDENCE = (
    GapCause.INPUT_WAIT,
    GapCause.PROFILER,
    GapCause.COMPILATION,
    GapCause.INITIALISATION,
    GapCause.ALLOCATION,
    GapCause.SYNCHRONISATION,
    GapCause.CPU_OPERATORS,
    GapCause.LAUNCH,
)
"""A moment in several of these counts as the first: an operator that runs while a batch is fetched
is part of the fetch, memory that an operator gets from the driver is allocation."""

SHORT_PAUSE = 50_000
"""ns below which Python between two operators counts as launching: calls of modules take 2 to 20
us, a script's own work mostly milliseconds."""


@once
def main_track(trace: Trace) -> int:
    """The training thread: the one with most time in steps, fetches and optimizer, else in
    operators and calls; NONE without any."""
    near = kinds.believable(trace)
    for select in (_marks, _busy):
        rows = np.flatnonzero(select(trace) & near)
        if len(rows):
            weights = trace.duration[rows].astype(float) + 1
            return int(np.argmax(np.bincount(trace.track[rows], weights)))
    return NONE


def _marks(trace: Trace) -> Mask:
    own = kinds.ranges_named(
        trace, lambda name: name.startswith(kinds.OWN_MARK) or kinds.STEP.match(name)
    )
    return own | kinds.fetches(trace) | kinds.optimizer(trace)


def _busy(trace: Trace) -> Mask:
    return kinds.operators(trace) | kinds.launches(trace)


@dataclass(frozen=True, eq=False)
class Host:
    """The CPU side of a trace."""

    trace: Trace
    _known: dict[int, States] = field(default_factory=dict, init=False)

    @cached_property
    def span(self) -> Intervals:
        """From the first to the last event of any CPU thread; empty without events."""
        rows = kinds.on_cpu(self.trace) & kinds.believable(self.trace)
        if not rows.any():
            return EMPTY
        return union(
            self.trace.start[rows].min(keepdims=True), self.trace.ends_of(rows).max(keepdims=True)
        )

    @cached_property
    def _engine_tracks(self) -> list[int]:
        """Threads of the autograd engine."""
        counts = np.bincount(self.trace.track[kinds.backward(self.trace)])
        return [int(track) for track in np.flatnonzero(counts)]

    @cached_property
    def _kinds(self) -> Mapping[GapCause, Mask]:
        trace = self.trace
        return {
            GapCause.INPUT_WAIT: kinds.input_wait(trace),
            GapCause.PROFILER: kinds.profiling(trace),
            GapCause.COMPILATION: compiling(trace),
            GapCause.INITIALISATION: initialising(trace),
            GapCause.ALLOCATION: kinds.allocating(trace),
            GapCause.SYNCHRONISATION: kinds.synchronising(trace),
            GapCause.LAUNCH: _busy(trace),
        }

    def states(self, track: int) -> States:
        """States of the thread that launches from ``track``.

        While it has no recorded activity, the state of the main thread counts, which hands out the
        work, and then the autograd engine's, for which that waits. The rest of ``span`` is Python,
        or launching if short.
        """
        states = dict.fromkeys(_BY_PRECEDENCE, EMPTY)
        for other in dict.fromkeys((track, main_track(self.trace), *self._engine_tracks)):
            if other != NONE:
                taken, mine = unite(*states.values()), self._recorded(other)
                states = {
                    cause: unite(states[cause], subtract(mine[cause], taken))
                    for cause in _BY_PRECEDENCE
                }
        rest = subtract(self.span, unite(*states.values()))
        short = rest.end - rest.start < SHORT_PAUSE
        between = Intervals(rest.start[short], rest.end[short])
        states[GapCause.LAUNCH] = unite(states[GapCause.LAUNCH], between)
        return {**states, GapCause.PYTHON: Intervals(rest.start[~short], rest.end[~short])}

    def _recorded(self, track: int) -> States:
        if track not in self._known:
            self._known[track] = self._of_thread(track)
        return self._known[track]

    def _of_thread(self, track: int) -> States:
        here = (self.trace.track == track) | kinds.of_any_thread(self.trace)
        here &= kinds.believable(self.trace)
        work = host_work(self.trace, track)
        own = {
            GapCause.CPU_OPERATORS: work.computing,
            GapCause.INITIALISATION: unite(work.setting_up, capturing(self.trace, here)),
        }
        taken, states = EMPTY, {}
        for cause in _BY_PRECEDENCE:
            covered = own.get(cause, EMPTY)
            if cause in self._kinds:
                rows = here & self._kinds[cause]
                covered = unite(covered, kinds.busy(self.trace, rows))
            states[cause] = subtract(covered, taken)
            taken = unite(taken, covered)
        return states


LATENCY = 50_000
"""ns after its launch within which a kernel starts on an idle device: usually 5 to 10 us, more for
the first kernel of a large graph."""


@dataclass(frozen=True, eq=False)
class Idle:
    """Every interval in which one device is idle, in order of time.

    Columns are as long as ``intervals``; rows are NONE before the first and after the last
    activity. ``causes`` are exclusive and cover exactly the intervals.
    """

    intervals: Intervals
    previous_row: Int64
    next_row: Int64
    launch_row: Int64
    causes: Mapping[GapCause, Intervals]


def explain_idle(trace: Trace, links: Links, mine: Mask, host: Host, start: int, end: int) -> Idle:
    """Idle time in ``[start, end)`` of the device with activity ``links.activity[mine]``."""
    rows, launch = links.activity[mine], links.launch[mine]
    intervals = complement(kinds.busy(trace, rows), start, end)
    following = np.searchsorted(trace.start[rows], intervals.end)
    has_next = (following < len(rows)) & (intervals.end < end)
    safe = np.minimum(following, len(rows) - 1)
    launch_row = np.where(has_next, launch[safe], NONE)
    early = has_next & _launched_before(trace, rows, launch)[safe]
    return Idle(
        intervals=intervals,
        previous_row=_previous(trace, rows, intervals.start),
        next_row=np.where(has_next, rows[safe], NONE),
        launch_row=launch_row,
        causes=_causes(trace, host, intervals, launch_row, has_next, early),
    )


def _launched_before(trace: Trace, rows: Int64, launch: Int64) -> Mask:
    """Which activities were launched before the recording began: those without a launch before all
    others of their stream."""
    linked = launch != NONE
    none = np.iinfo(np.int64)
    first = np.full(len(trace.tracks), none.max)
    np.minimum.at(first, trace.track[rows[linked]], trace.start[rows[linked]])
    first[first == none.max] = none.min
    before: Mask = ~linked & (trace.start[rows] < first[trace.track[rows]])
    return before


def _previous(trace: Trace, rows: Int64, times: Int64) -> Int64:
    """The last activity that ends at or before each time; NONE without one."""
    by_end = rows[np.argsort(trace.ends_of(rows), kind="stable")]
    index = np.searchsorted(trace.ends_of(by_end), times, side="right") - 1
    return np.where(index < 0, NONE, by_end[np.maximum(index, 0)])


def _causes(
    trace: Trace, host: Host, intervals: Intervals, launch_row: Int64, followed: Mask, early: Mask
) -> Mapping[GapCause, Intervals]:
    linked = launch_row != NONE
    launched = np.where(linked, trace.ends_of(launch_row), intervals.end)
    late = np.where(early, intervals.start, np.clip(launched, intervals.start, intervals.end))
    started = np.where(early, late, np.clip(launched + LATENCY, late, intervals.end))
    parts: dict[GapCause, list[Intervals]] = {cause: [] for cause in GapCause}
    parts[GapCause.LAUNCH].append(_nonempty(late, started))
    parts[GapCause.QUEUED].append(_nonempty(started, intervals.end))
    drained = EMPTY
    tracks = np.where(linked, trace.track[launch_row], main_track(trace))
    for track in np.unique(tracks[tracks != NONE]).tolist():
        states, here = host.states(track), tracks == track
        synchronising = states[GapCause.SYNCHRONISATION]
        unlinked = ~linked[here] & followed[here]
        asleep = np.where(unlinked, _before_wait(synchronising, intervals.end[here]), late[here])
        waiting = _nonempty(intervals.start[here], np.minimum(late[here], asleep))
        for cause, state in states.items():
            parts[cause].append(intersect(waiting, state))
        behind = here & linked & (late > intervals.start)
        emptied = Intervals(intervals.start[behind], intervals.end[behind])
        drained = unite(drained, _drained(synchronising, emptied))
    causes = _moved({cause: unite(*sets) for cause, sets in parts.items()}, drained)
    return {**causes, GapCause.UNEXPLAINED: subtract(intervals, unite(*causes.values()))}


def _before_wait(waits: Intervals, times: Int64) -> Int64:
    """Each time, or the start of the wait under way at that time.

    A kernel that starts while the host waits was launched before the wait began.
    """
    if not len(waits):
        return times
    index = np.maximum(np.searchsorted(waits.start, times) - 1, 0)
    going_on = (waits.start[index] < times) & (times < waits.end[index])
    return np.where(going_on, waits.start[index], times)


def _drained(waits: Intervals, intervals: Intervals) -> Intervals:
    """Idle time caused by waits for the device: the host emptied the queue by waiting, and the
    device then waits for the host.

    Without the wait, the host would have launched that much earlier: of an interval that begins
    during a wait, the length of the wait until then counts.
    """
    if not len(waits):
        return EMPTY
    index = np.maximum(np.searchsorted(waits.start, intervals.start) - 1, 0)
    waited = intervals.start - waits.start[index]
    emptied = (waited > 0) & (waits.end[index] >= intervals.start)
    reach = np.minimum(intervals.end, intervals.start + waited)
    return _nonempty(intervals.start, np.where(emptied, reach, intervals.start))


def _moved(causes: dict[GapCause, Intervals], drained: Intervals) -> dict[GapCause, Intervals]:
    """Count drained time as synchronisation instead of Python or launching."""
    ordinary = (GapCause.PYTHON, GapCause.LAUNCH)
    moved = intersect(drained, unite(*(causes[cause] for cause in ordinary)))
    return {
        **causes,
        **{cause: subtract(causes[cause], drained) for cause in ordinary},
        GapCause.SYNCHRONISATION: unite(causes[GapCause.SYNCHRONISATION], moved),
    }


def _nonempty(start: Int64, end: Int64) -> Intervals:
    valid = end > start
    return Intervals(start[valid], end[valid])


_GRAPH_LAUNCH = re.compile(r"(cuda|hip|cu)GraphLaunch")
_LOADING = re.compile(
    r"cu(Module|Library)Load|hipModuleLoad|cuInit$|cu(DevicePrimary)?Ctx(Create|Retain)"
    r"|__(cuda|hip)RegisterFatBinary|urProgram(Build|Create)|zeModuleCreate"
)
_BEGIN_CAPTURE, _END_CAPTURE = (
    re.compile(rf"(cuda|hip|cu)Stream{which}Capture") for which in ("Begin", "End")
)
_FREE = re.compile(r"(cuda|hip)Free(Async)?$")
_COMPILING = re.compile(r".*\(dynamo_timed\)$|entire_(frame|backward)_compile$|.*[Nn]vrtc.*Compile")
"""Ranges that dynamo, inductor and nvFuser mark while they compile."""

FIRST_USE = 1_000_000
"""ns from which a call that should only enqueue or create something has loaded code: on slow hosts
such calls take 50 us, the first launch of a kernel takes milliseconds."""

FIRST_ALLOCATION = 50_000_000
"""ns from which an allocation of device memory has also set something up: on an idle device others
take a few milliseconds."""


def compiling(trace: Trace) -> Mask:
    """Ranges in which a compiler of kernels runs."""
    return (kinds.operators(trace) | kinds.ranges(trace)) & kinds.named(trace, _COMPILING.match)


def capturing(trace: Trace, here: Mask | None = None) -> Intervals:
    """When launches are captured into a graph instead of run: from each call that begins a capture
    to the next that ends one, of the rows ``here``."""
    calls = kinds.launches(trace) if here is None else kinds.launches(trace) & here
    begins = np.sort(trace.start[calls & kinds.named(trace, _BEGIN_CAPTURE.match)])
    ends = np.sort(trace.ends_of(calls & kinds.named(trace, _END_CAPTURE.match)))
    following = np.searchsorted(ends, begins)
    ended = following < len(ends)
    return union(begins[ended], ends[following[ended]])


def initialising(trace: Trace) -> Mask:
    """Calls that load code or set the driver up, and calls too long for anything else."""
    calls = kinds.launches(trace)
    loading = calls & kinds.named(trace, _LOADING.match)
    driver = trace.in_category("overhead") & kinds.named(trace, kinds.DRIVER_LOADING.__contains__)
    slow = calls & (trace.duration >= FIRST_USE)
    if slow.any():
        at_once = (
            kinds.synchronising(trace)
            | kinds.allocating(trace)
            | kinds.named(trace, _GRAPH_LAUNCH.match)
        )
        of_device = kinds.allocating(trace) & kinds.named(trace, lambda name: "Host" not in name)
        sets_up = of_device & (trace.duration >= FIRST_ALLOCATION)
        slow &= ~at_once | sets_up | _frees_nothing(trace, slow & of_device)
    return loading | driver | slow


def _frees_nothing(trace: Trace, slow: Mask) -> Mask:
    """Which of the ``slow`` calls free memory in the first call of an operator that has not
    allocated any: no allocator does so, libraries do it to start the driver."""
    result = np.zeros(len(trace), dtype=bool)
    rows = np.flatnonzero(slow & kinds.named(trace, _FREE.match))
    if not len(rows):
        return result
    around = innermost_operator(trace)
    asking = np.flatnonzero(kinds.allocating(trace) & ~kinds.named(trace, _FREE.match))
    for row in rows[around[rows] != NONE].tolist():
        operator = around[row]
        alike = np.flatnonzero((trace.name == trace.name[operator]) & kinds.operators(trace))
        first = alike[np.argmin(trace.start[alike])]
        asked = trace.start[asking[around[asking] == operator]]
        is_first = trace.start[row] < trace.start[first] + trace.duration[first]
        result[row] = is_first and not (asked < trace.start[row]).any()
    return result
