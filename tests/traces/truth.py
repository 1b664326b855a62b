"""What must be found in a trace: asked moment by moment of what was built, slow and obvious.

Nothing changes between two neighbouring times at which anything begins or ends; so each such moment
is asked once, of all spans. Nothing here is shared with the code under test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

CAUSES = (
    "data loader wait", "synchronisation", "launch-bound", "python", "allocation", "profiler",
    "unexplained",
)  # fmt: skip
"""Of a gap in which two causes last equally long, the first names it."""

STATES = ("data loader wait", "profiler", "allocation", "synchronisation", "launch-bound")
"""What a thread does at a moment is the first of these that it is in."""

WORK = {
    "compute": "gpu compute",
    "communication": "exposed communication",
    "copy": "exposed copies",
}
"""A device that does several things at a moment does the first of these."""

PHASES = ("input_wait", "optimizer", "backward", "forward")
"""Of phases inside one another the first counts."""

STEP = "ProfilerStep#"


@dataclass
class Span:
    """Something with a begin and an end (ns), and what it means."""

    name: str
    category: str
    start: int
    end: int
    thread: int = 0
    """0 on a device."""
    device: int = -1
    stream: int = -1
    cause: str = ""
    """Of ``STATES``, if a device that idles meanwhile does so because of it."""
    phase: str = ""
    by_agent: bool = False
    """Whether our agent marked it."""
    marks_main: bool = False
    """Whether it is a mark that only the thread that trains has."""
    work: str = ""
    """Of ``WORK``."""
    launch: Span | None = None
    args: dict[str, Any] = field(default_factory=dict)

    def covers(self, time: int) -> bool:
        """Whether it is going on."""
        return self.start <= time < self.end


class Gap(NamedTuple):
    """A stretch in which a device does nothing between two activities."""

    device: int
    start: int
    end: int
    cause: str


class Truth:
    """Answers to what an analysis should say of some spans."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.host = [span for span in spans if span.thread]
        self.work = [span for span in spans if not span.thread and span.work]
        steps = [span for span in self.host if span.name.startswith(STEP)]
        self.steps = sorted(steps, key=lambda step: (step.start, -step.end))
        self.cuts = sorted({time for span in spans for time in (span.start, span.end)})
        self._order = list(dict.fromkeys((s.thread, s.device, s.stream) for s in spans))
        self._agent_marked = {span.phase for span in self.host if span.by_agent}

    @property
    def devices(self) -> list[int]:
        """Those that do anything."""
        return sorted({span.device for span in self.work})

    def busy(self, device: int) -> int:
        """How long a device does anything."""
        return sum(end - start for start, end in pairwise(self.cuts) if self._doing(device, start))

    def idle(self, device: int) -> Counter[str]:
        """How long it does nothing, by cause, from the first to the last moment of the trace."""
        found: Counter[str] = Counter()
        for start, end in self._stretches(device):
            for begin, stop, cause in self._causes(device, start, end):
                found[cause] += stop - begin
        return found

    def gaps(self) -> list[Gap]:
        """Between two activities of a device, by device and time."""
        found = []
        for device in self.devices:
            mine = [span for span in self.work if span.device == device]
            first, last = min(s.start for s in mine), max(s.end for s in mine)
            for start, end in self._stretches(device):
                if first < end and start < last:
                    shares: Counter[str] = Counter()
                    for begin, stop, cause in self._causes(device, start, end):
                        shares[cause] += stop - begin
                    cause = max(CAUSES, key=lambda each: shares[each])
                    found.append(Gap(device, start, end, cause))
        return found

    def parts(self) -> list[Counter[str]]:
        """Where the time of each step went: of the busiest device, or else of the host."""
        device = max(self.devices, key=self.busy, default=None)
        pieces = self._phases() if device is None else self._device_parts(device)
        return [sum((_overlap(step, *piece) for piece in pieces), Counter()) for step in self.steps]

    def launches(self) -> list[tuple[str, int, int]]:
        """Of each activity whose launch is known: name, start, how long after the call it began."""
        return sorted(
            (span.name, span.start, span.start - span.launch.start)
            for span in self.work
            if span.launch
        )

    def _doing(self, device: int, time: int) -> str:
        """What a device does, or nothing."""
        kinds = {span.work for span in self.work if span.device == device and span.covers(time)}
        return next((name for kind, name in WORK.items() if kind in kinds), "")

    def _stretches(self, device: int) -> list[tuple[int, int]]:
        """Times without work, as long as they go on."""
        found: list[tuple[int, int]] = []
        for start, end in pairwise(self.cuts):
            if not self._doing(device, start):
                begin = found.pop()[0] if found and found[-1][1] == start else start
                found.append((begin, end))
        return found

    def _device_parts(self, device: int) -> list[tuple[int, int, str]]:
        pieces = [
            (start, end, name)
            for start, end in pairwise(self.cuts)
            if (name := self._doing(device, start))
        ]
        for start, end in self._stretches(device):
            pieces += self._causes(device, start, end)
        return pieces

    def _causes(self, device: int, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        """Why a device did nothing in a stretch, piece by piece.

        Work that was launched before the stretch was late by itself. Otherwise the launching thread
        is asked what it did until the launch began, and what comes then is launching. A thread that
        had waited until the queue was empty launches later by as long as it had waited.
        """
        late = self._next(device, end)
        call = late.launch if late else None
        thread = call.thread if call else self.main
        waited = self._waited(thread, start) if call else 0
        # Without a call it was launched before the wait in which it begins, if there is one.
        asleep = end
        if late and not call and self._state(thread, end) == "synchronisation":
            asleep = end - self._waited(thread, end)
        cuts = {start, end, *(cut for cut in [*self.cuts, start + waited] if start < cut < end)}
        for begin, stop in pairwise(sorted(cuts)):
            cause = self._state(thread, begin)
            if (call and call.end <= start) or begin >= asleep:
                cause = "unexplained"
            elif call and begin >= call.start:
                cause = "launch-bound"
            if cause in ("python", "launch-bound") and begin < start + waited:
                cause = "synchronisation"
            yield begin, stop, cause

    def _next(self, device: int, time: int) -> Span | None:
        """The activity that ends a stretch; of several the one first in the trace's order."""
        here = [span for span in self.work if (span.device, span.start) == (device, time)]
        return min(
            here,
            key=lambda s: (self._order.index((0, s.device, s.stream)), s.start - s.end),
            default=None,
        )

    @cached_property
    def main(self) -> int:
        """The thread that trains: that with most time in what only it marks, else in calls."""
        marks = [span for span in self.host if span.marks_main]
        work = [s for s in self.host if s.category in ("cpu_op", "cuda_runtime")]
        times: Counter[int] = Counter()
        for span in marks or work:
            times[span.thread] += span.end - span.start + 1
        ordered = [thread for thread, _, _ in self._order if thread]
        return max(ordered, key=lambda thread: times[thread], default=0)

    def _state(self, thread: int, time: int) -> str:
        """What a thread does; while nothing is recorded of it, what the main thread does."""
        for each in (thread, self.main):
            here = {self._cause(s) for s in self.host if s.thread == each and s.covers(time)}
            for state in STATES:
                if state in here:
                    return state
        known = self.host and min(s.start for s in self.host) <= time
        return "python" if known and time < max(s.end for s in self.host) else "unexplained"

    def _waited(self, thread: int, time: int) -> int:
        """How long the thread has been waiting for the device without a break."""
        began = time
        for cut in reversed([cut for cut in self.cuts if cut < time]):
            if self._state(thread, cut) != "synchronisation":
                break
            began = cut
        return time - began

    def _cause(self, span: Span) -> str:
        return "" if span.phase == "input_wait" and self._is_repeated(span) else span.cause

    def _is_repeated(self, span: Span) -> bool:
        """Whether our agent marked such phases itself: what torch marks says nothing new then."""
        return bool(span.phase) and not span.by_agent and span.phase in self._agent_marked

    def _phases(self) -> list[tuple[int, int, str]]:
        return [(start, end, self._phase(start)) for start, end in pairwise(self.cuts)]

    def _phase(self, time: int) -> str:
        here = [s for s in self.host if s.covers(time)]
        open_phases = {span.phase for span in here if not self._is_repeated(span)}
        for phase in PHASES:
            if phase in open_phases:
                return phase
        operators = any(s.category == "cpu_op" and s.thread == self.main for s in here)
        return "operators" if operators and "forward" not in self._agent_marked else "other"


def _overlap(step: Span, start: int, end: int, name: str) -> Counter[str]:
    return +Counter({name: min(end, step.end) - max(start, step.start)})
