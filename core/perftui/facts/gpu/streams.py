"""Work of each stream of a GPU, overlaps, and delays of launches."""

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
    """Total time of its activity; overlaps count once."""
    first: int
    last: int
    """Start of its first and end of its last activity, since the trace's start."""


@dataclass(frozen=True)
class Overlap:
    """Time of a device's communication or copies, ns, in total and not hidden by computation."""

    device: int
    total: int
    exposed: int


@dataclass(frozen=True)
class LaunchDelays:
    """Time from the end of a launching call to the start of its activity, ns, and launches queued
    on the device at that start; median and 95th percentile."""

    linked: int
    """Activities whose launch is in the file."""
    delay_p50: int
    delay_p95: int
    queue_p50: int
    queue_p95: int


@trace_fact
def stream_work(analysis: TraceAnalysis) -> tuple[StreamWork, ...]:
    """Work of each stream with activity, by device and number."""
    trace = analysis.trace
    rows = np.flatnonzero(kinds.device_activity(trace))
    streams = []
    for track in np.unique(trace.track[rows]).tolist():
        mine = rows[trace.track[rows] == track]
        start, end = trace.start[mine], trace.ends_of(mine)
        at = trace.tracks[track]
        busy = union(start, end).total
        streams.append(
            StreamWork(at.device, at.stream, len(mine), busy, int(start.min()), int(end.max()))
        )
    return tuple(sorted(streams, key=lambda stream: (stream.device, stream.stream)))


@trace_fact
def communication_overlap(analysis: TraceAnalysis) -> tuple[Overlap, ...]:
    """Overlap of communication with other work, over the whole trace, for each device with any."""
    return _overlaps(analysis, kinds.communication(analysis.trace))


@trace_fact
def copy_overlap(analysis: TraceAnalysis) -> tuple[Overlap, ...]:
    """Overlap of copies with other work, over the whole trace, for each device with any."""
    return _overlaps(analysis, analysis.trace.in_category(MEMCPY))


def _overlaps(analysis: TraceAnalysis, chosen: Mask) -> tuple[Overlap, ...]:
    trace, overlaps = analysis.trace, []
    for device in (use.device for use in analysis.activity):
        mine = (kinds.devices(trace) == device) & kinds.device_activity(trace)
        if len(under_way := covered(trace, mine & chosen)):
            exposed = subtract(under_way, covered(trace, mine & ~chosen))
            overlaps.append(Overlap(device, under_way.total, exposed.total))
    return tuple(overlaps)


@trace_fact
def launch_delays(analysis: TraceAnalysis) -> LaunchDelays | None:
    """Launch delays over all devices; None if no launch is linked."""
    trace, links = analysis.trace, link(analysis.trace)
    has_launch = links.launch != NONE
    if not has_launch.any():
        return None
    rows, launches = links.activity[has_launch], links.launch[has_launch]
    starts, launched = trace.start[rows], trace.ends_of(launches)
    delays = np.sort(np.maximum(starts - launched, 0))
    # At the start of each activity, the launches before it that have not begun.
    before = np.searchsorted(np.sort(launched), np.sort(starts), side="right")
    queue = np.sort(np.maximum(before - np.arange(1, len(starts) + 1), 0))
    quantiles = (_rank(values, percent) for values in (delays, queue) for percent in (50, 95))
    return LaunchDelays(len(rows), *quantiles)


def _rank(ordered: Int64, percent: int) -> int:
    """Nearest rank of sorted values (at least one)."""
    return int(ordered[max(-(-percent * len(ordered) // 100), 1) - 1])


@trace_fact
def critical_path_parts(analysis: TraceAnalysis) -> Mapping[Link, int]:
    """Time of each kind of link on the critical path, ns; they sum to the time from the trace's
    first event to its last. Unknown without both device and host activity."""
    chain = critical_path(analysis.trace, Host(analysis.trace))
    if not chain:
        raise UnknownError("the trace does not have both device and host activity")
    return {kind: sum(link_.duration for link_ in chain if link_.kind is kind) for kind in Link}
