"""Work of each stream of a GPU, overlaps, delays of launches, and the critical path.

That is the chain of work and waiting that determines a trace's length, from its last event back.
From the end of the last event, the walk goes to whatever that waited for. A kernel waits for its
device's previous activity, or for its launch if that came later; the launching thread worked since
it last waited for the device; such a wait ends with the device's work. The result is an unbroken
chain: its segments sum to the whole exactly. After "critical path" in HolisticTraceAnalysis,
without the graph of all operators: only events on the chain are examined."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import Host
from perftui.analysis.intervals import subtract, union
from perftui.analysis.kinds import covered
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.calls import link
from perftui.analysis.steps import COMPUTE
from perftui.facts.fact import UnknownError, trace_fact
from perftui.run.table import Weighed
from perftui.trace.model import MEMCPY, NONE, Mask, Trace


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
    delays = Weighed(np.maximum(starts - launched, 0))
    # At the start of each activity, the launches before it that have not begun.
    before = np.searchsorted(np.sort(launched), np.sort(starts), side="right")
    queue = Weighed(np.maximum(before - np.arange(1, len(starts) + 1), 0))
    quantiles = (values.nearest_rank(percent) for values in (delays, queue) for percent in (50, 95))
    return LaunchDelays(len(rows), *quantiles)


@trace_fact
def critical_path_parts(analysis: TraceAnalysis) -> Mapping[Link, int]:
    """Time of each kind of link on the critical path, ns; they sum to the time from the trace's
    first event to its last. Unknown without both device and host activity."""
    chain = CriticalPath(analysis.trace, Host(analysis.trace)).chain()
    if not chain:
        raise UnknownError("the trace does not have both device and host activity")
    return {kind: sum(link_.duration for link_ in chain if link_.kind is kind) for kind in Link}


class Link(str, enum.Enum):
    """Kind of a segment of the chain."""

    COMPUTE = COMPUTE
    COMMUNICATION = "communication"
    COPY = "copies"
    LAUNCH = "launching call to start"
    HOST = "host"
    QUEUE = "device, between activities"


@dataclass(frozen=True)
class Segment:
    """One link of the chain."""

    kind: Link
    start: int
    end: int

    @property
    def duration(self) -> int:
        """ns."""
        return self.end - self.start


class CriticalPath:
    """Streams are assumed to depend on their device's activity that ended last before."""

    def __init__(self, trace: Trace, host: Host) -> None:
        links = link(trace)
        self._trace = trace
        self._host = host
        self._rows = links.activity
        self._launch = links.launch
        self._starts = trace.start[links.activity]
        ends = trace.ends_of(links.activity)
        self._by_end = np.argsort(ends, kind="stable")
        self._ends = ends[self._by_end]
        self._is_communication = kinds.communication(trace)
        self._is_copy = trace.in_category(MEMCPY)
        waits = np.flatnonzero(kinds.synchronising(trace))
        waits = waits[np.argsort(trace.ends_of(waits), kind="stable")]
        self._waits = trace.start[waits], trace.ends_of(waits)
        self._found: list[Segment] = []

    def chain(self) -> tuple[Segment, ...]:
        """From the first to the last event of the host's threads and the devices, in order of time;
        empty without device or host activity."""
        if not len(self._rows) or not len(self._host.span):
            return ()
        begin = min(int(self._host.span.start[0]), int(self._starts.min()))
        on_host, on_device = int(self._host.span.end[-1]), int(self._ends[-1])
        at: tuple[int, int] | None = (len(self._ends) - 1, on_device)
        if on_device < on_host:
            at = self._on_host(on_host, begin)
        # Each activity is on the chain at most once.
        for _ in range(len(self._ends)):
            if at is None:
                break
            at = self._activity(*at, begin)
        return tuple(reversed(self._found))

    def _add(self, kind: Link, start: int, end: int) -> None:
        if end > start:
            self._found.append(Segment(kind, start, end))

    def _activity(self, place: int, time: int, begin: int) -> tuple[int, int] | None:
        """Add an activity and its wait; returns the next one, None at the beginning."""
        index = int(self._by_end[place])
        start = int(self._starts[index])
        self._add(self._kind(int(self._rows[index])), start, time)
        # An activity without a length ends where it starts.
        before = min(int(np.searchsorted(self._ends, start, side="right")), place) - 1
        free = int(self._ends[before]) if before >= 0 else begin
        launch = int(self._launch[index])
        if launch != NONE and int(self._trace.end[launch]) >= free:
            called = min(int(self._trace.start[launch]), start)
            self._add(Link.LAUNCH, called, start)
            return self._on_host(called, begin)
        self._add(Link.QUEUE, free, start)
        return (before, free) if before >= 0 else None

    def _on_host(self, time: int, begin: int) -> tuple[int, int] | None:
        """Go back to the last wait for the device, on any thread, that ended with device work:
        autograd's thread works while the training thread waits for it."""
        starts, ends = self._waits
        number = int(np.searchsorted(ends, time, side="right")) - 1
        while number >= 0:
            last = int(np.searchsorted(self._ends, ends[number], side="right")) - 1
            if last >= 0 and self._ends[last] > starts[number]:
                done = int(self._ends[last])
                self._add(Link.HOST, done, time)
                return last, done
            number -= 1
        self._add(Link.HOST, begin, time)
        return None

    def _kind(self, row: int) -> Link:
        if self._is_communication[row]:
            return Link.COMMUNICATION
        return Link.COPY if self._is_copy[row] else Link.COMPUTE
