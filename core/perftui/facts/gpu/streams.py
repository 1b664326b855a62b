"""What each stream of a GPU did, what overlaps, and what delays its launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.critical_path import Link, critical_path
from perftui.analysis.gpu_idle.causes import Host
from perftui.analysis.intervals import subtract, union
from perftui.analysis.kinds import covered
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.calls import link
from perftui.facts.fact import UnknownError, trace_fact
from perftui.trace.model import MEMCPY, NONE, Int64, Mask


@dataclass(frozen=True)
class StreamWork:
    """Activity of one stream, ns."""

    device: int
    stream: int
    count: int
    busy: int
    """The union of its activity."""
    first: int
    last: int
    """Start of its first and end of its last activity, since the trace's start."""


@dataclass(frozen=True)
class Overlap:
    """Communication or copies of a device, and how much of them computation hides, ns."""

    device: int
    total: int
    exposed: int


@dataclass(frozen=True)
class LaunchDelays:
    """From the end of a launching call to the start of what it launched, ns, and how many launches
    were waiting for the device at that moment; the middle value and the 95th percentile."""

    linked: int
    """Activities whose launch is in the file."""
    delay_p50: int
    delay_p95: int
    queue_p50: int
    queue_p95: int


@trace_fact
def stream_work(analysis: TraceAnalysis) -> tuple[StreamWork, ...]:
    """Work of every stream that did anything, by device and number."""
    trace = analysis.trace
    rows = np.flatnonzero(kinds.device_activity(trace))
    found = []
    for track in np.unique(trace.track[rows]).tolist():
        mine = rows[trace.track[rows] == track]
        start, end = trace.start[mine], trace.ends_of(mine)
        at = trace.tracks[track]
        busy = union(start, end).total
        found.append(
            StreamWork(at.device, at.stream, len(mine), busy, int(start.min()), int(end.max()))
        )
    return tuple(sorted(found, key=lambda one: (one.device, one.stream)))


@trace_fact
def communication_overlap(analysis: TraceAnalysis) -> tuple[Overlap, ...]:
    """Overlap of communication with other work on each device that has any, over all the trace."""
    return _overlaps(analysis, kinds.communication(analysis.trace))


@trace_fact
def copy_overlap(analysis: TraceAnalysis) -> tuple[Overlap, ...]:
    """Overlap of copies with anything else on each device that has any, over all of the trace."""
    return _overlaps(analysis, analysis.trace.in_category(MEMCPY))


def _overlaps(analysis: TraceAnalysis, chosen: Mask) -> tuple[Overlap, ...]:
    trace, found = analysis.trace, []
    for device in (each.device for each in analysis.activity):
        mine = (kinds.devices(trace) == device) & kinds.device_activity(trace)
        if len(under_way := covered(trace, mine & chosen)):
            exposed = subtract(under_way, covered(trace, mine & ~chosen))
            found.append(Overlap(device, under_way.total, exposed.total))
    return tuple(found)


@trace_fact
def launch_delays(analysis: TraceAnalysis) -> LaunchDelays | None:
    """Over all devices; None where no launch is linked."""
    trace, links = analysis.trace, link(analysis.trace)
    known = links.launch != NONE
    if not known.any():
        return None
    rows, launches = links.activity[known], links.launch[known]
    starts, launched = trace.start[rows], trace.ends_of(launches)
    delays = np.sort(np.maximum(starts - launched, 0))
    # At the start of each activity, how many others were launched before and have not begun.
    before = np.searchsorted(np.sort(launched), np.sort(starts), side="right")
    queue = np.sort(np.maximum(before - np.arange(1, len(starts) + 1), 0))
    quantiles = (_rank(values, percent) for values in (delays, queue) for percent in (50, 95))
    return LaunchDelays(len(rows), *quantiles)


def _rank(ordered: Int64, percent: int) -> int:
    """The nearest rank of sorted values, of which there is at least one."""
    return int(ordered[max(-(-percent * len(ordered) // 100), 1) - 1])


@trace_fact
def critical_path_parts(analysis: TraceAnalysis) -> Mapping[Link, int]:
    """Time of each kind of link on it, ns; they sum to the time from the trace's first event to its
    last. Unknown if the trace does not have both device and host activity."""
    chain = critical_path(analysis.trace, Host(analysis.trace))
    if not chain:
        raise UnknownError("the trace does not have both device and host activity")
    return {kind: sum(one.duration for one in chain if one.kind is kind) for kind in Link}
