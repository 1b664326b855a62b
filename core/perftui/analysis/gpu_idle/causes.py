"""Why a device is idle, to the nanosecond: idle time split by what the launching thread did.

A kernel whose launch ends after the device fell idle was launched late: until then the state of the
launching thread is the cause. From then on a short time is part of launching, and after that the
kernel waits in a queue, as does one that was launched before the device fell idle.

While the host waits in a synchronising call the device is busy; the cost comes after it, when the
queue is empty. ``_drained`` returns how much of the time after counts as synchronisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perftui.analysis.gpu_idle.host import Host
from perftui.analysis.intervals import EMPTY, Intervals, complement, intersect, subtract, unite
from perftui.analysis.intervals import union as united
from perftui.analysis.kinds import Mask
from perftui.analysis.links import Links
from perftui.analysis.model import GapCause
from perftui.trace.model import NONE, Int64, Trace

LATENCY = 50_000
"""ns after its launch in which a kernel begins on an idle device: usually 5 to 10 us, more for the
first kernel of a large graph."""


@dataclass(frozen=True, eq=False)
class Idle:
    """Every interval in which one device does nothing, in order of time.

    Columns are as long as ``intervals``; rows are NONE before the first and behind the last
    activity. ``causes`` are exclusive and cover exactly the intervals.
    """

    intervals: Intervals
    previous_row: Int64
    next_row: Int64
    launch_row: Int64
    causes: Mapping[GapCause, Intervals]


def explain_idle(trace: Trace, links: Links, mine: Mask, host: Host, start: int, end: int) -> Idle:
    """Idle time in ``[start, end)`` of the device whose activity is ``links.activity[mine]``."""
    rows, launch = links.activity[mine], links.launch[mine]
    busy = united(trace.start[rows], trace.ends_of(rows))
    intervals = complement(busy, start, end)
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
    """Which activities were launched before the recording began: those without a launch that come
    before all others of their stream."""
    linked = launch != NONE
    none = np.iinfo(np.int64)
    first = np.full(len(trace.tracks), none.max)
    np.minimum.at(first, trace.track[rows[linked]], trace.start[rows[linked]])
    first[first == none.max] = none.min
    before: Mask = ~linked & (trace.start[rows] < first[trace.track[rows]])
    return before


def _previous(trace: Trace, rows: Int64, times: Int64) -> Int64:
    """The last activity to end at or before each time."""
    by_end = rows[np.argsort(trace.ends_of(rows), kind="stable")]
    index = np.searchsorted(trace.ends_of(by_end), times, side="right") - 1
    return np.where(index < 0, NONE, by_end[np.maximum(index, 0)])


def _causes(
    trace: Trace,
    host: Host,
    intervals: Intervals,
    launch_row: Int64,
    followed: Mask,
    early: Mask,
) -> Mapping[GapCause, Intervals]:
    known = launch_row != NONE
    launched = np.where(known, trace.ends_of(launch_row), intervals.end)
    late = np.where(early, intervals.start, np.clip(launched, intervals.start, intervals.end))
    started = np.where(early, late, np.clip(launched + LATENCY, late, intervals.end))
    found: dict[GapCause, list[Intervals]] = {cause: [] for cause in GapCause}
    found[GapCause.LAUNCH].append(_nonempty(late, started))
    found[GapCause.QUEUED].append(_nonempty(started, intervals.end))
    drained = EMPTY
    tracks = np.where(known, trace.track[launch_row], host.main_track)
    for track in np.unique(tracks[tracks != NONE]).tolist():
        states, here = host.states(track), tracks == track
        synchronising = states[GapCause.SYNCHRONISATION]
        unlinked = ~known[here] & followed[here]
        asleep = np.where(unlinked, _before_wait(synchronising, intervals.end[here]), late[here])
        waiting = _nonempty(intervals.start[here], np.minimum(late[here], asleep))
        for cause, state in states.items():
            found[cause].append(intersect(waiting, state))
        behind = here & known & (late > intervals.start)
        emptied = Intervals(intervals.start[behind], intervals.end[behind])
        drained = unite(drained, _drained(synchronising, emptied))
    causes = _moved({cause: unite(*sets) for cause, sets in found.items()}, drained)
    rest = subtract(intervals, unite(*causes.values()))
    return {**causes, GapCause.UNEXPLAINED: rest}


def _before_wait(waits: Intervals, times: Int64) -> Int64:
    """Each time, or the begin of the wait that is going on then.

    A kernel that starts while the host waits was launched before the wait began.
    """
    if not len(waits):
        return times
    index = np.maximum(np.searchsorted(waits.start, times) - 1, 0)
    going_on = (waits.start[index] < times) & (times < waits.end[index])
    return np.where(going_on, waits.start[index], times)


def _drained(waits: Intervals, intervals: Intervals) -> Intervals:
    """Idle time that waiting for the device has caused: the host emptied the queue by waiting, and
    the device then waits for the host.

    Had the host not waited, it would have launched that much earlier: so of an interval that begins
    during a wait, as much counts as the wait had lasted by then.
    """
    if not len(waits):
        return EMPTY
    index = np.maximum(np.searchsorted(waits.start, intervals.start) - 1, 0)
    waited = intervals.start - waits.start[index]
    emptied = (waited > 0) & (waits.end[index] >= intervals.start)
    reach = np.minimum(intervals.end, intervals.start + waited)
    return _nonempty(intervals.start, np.where(emptied, reach, intervals.start))


def _moved(causes: dict[GapCause, Intervals], drained: Intervals) -> dict[GapCause, Intervals]:
    """Drained time that would be Python or launching is synchronisation."""
    ordinary = (GapCause.PYTHON, GapCause.LAUNCH)
    moved = intersect(drained, unite(*(causes[cause] for cause in ordinary)))
    return {
        **causes,
        **{cause: subtract(causes[cause], drained) for cause in ordinary},
        GapCause.SYNCHRONISATION: unite(causes[GapCause.SYNCHRONISATION], moved),
    }


def _nonempty(start: Int64, end: Int64) -> Intervals:
    kept = end > start
    return Intervals(start[kept], end[kept])
