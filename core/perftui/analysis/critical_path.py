"""The chain of work and waiting that determines a trace's length, from its last event back.

From the end of the last event, the walk goes to whatever that waited for. A kernel waits for its
device's previous activity, or for its launch if that came later; the launching thread worked since
it last waited for the device; such a wait ends with the device's work. The result is an unbroken
chain: its segments sum to the whole exactly. After "critical path" in HolisticTraceAnalysis,
without the graph of all operators: only events on the chain are examined.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import Host
from perftui.analysis.ops.calls import link
from perftui.analysis.steps import COMPUTE
from perftui.trace.model import MEMCPY, NONE, Trace


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
    """One link of the chain; ``row`` is the activity or launching call, NONE for the host's."""

    kind: Link
    start: int
    end: int
    row: int

    @property
    def duration(self) -> int:
        """ns."""
        return self.end - self.start


def critical_path(trace: Trace, host: Host) -> tuple[Segment, ...]:
    """From the first to the last event of the host's threads and the devices, in order of time;
    empty without device or host activity.

    Streams are assumed to depend on their device's activity that ended last before.
    """
    return _Walk(trace, host).chain()


class _Walk:
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

    def _add(self, kind: Link, start: int, end: int, row: int = NONE) -> None:
        if end > start:
            self._found.append(Segment(kind, start, end, row))

    def _activity(self, place: int, time: int, begin: int) -> tuple[int, int] | None:
        """Add an activity and its wait; returns the next one, None at the beginning."""
        index = int(self._by_end[place])
        row, start = int(self._rows[index]), int(self._starts[index])
        self._add(self._kind(row), start, time, row)
        # An activity without a length ends where it starts.
        before = min(int(np.searchsorted(self._ends, start, side="right")), place) - 1
        free = int(self._ends[before]) if before >= 0 else begin
        launch = int(self._launch[index])
        if launch != NONE and int(self._trace.end[launch]) >= free:
            called = min(int(self._trace.start[launch]), start)
            self._add(Link.LAUNCH, called, start, launch)
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
