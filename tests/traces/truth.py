"""What must be found in a trace: asked moment by moment of what was built, slow and obvious.

Nothing changes between two neighbouring times at which anything begins or ends; so each such moment
is asked once, of all spans. Nothing here is shared with the code under test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

CAUSES = (
    "data loader wait", "synchronisation", "launch-bound", "python", "cpu operators", "allocation",
    "compilation", "initialisation", "queue wait", "profiler", "unexplained",
)  # fmt: skip
"""Of a gap in which two causes last equally long, the first names it."""

STATES = (
    "data loader wait", "profiler", "compilation", "initialisation", "allocation",
    "synchronisation", "cpu operators", "launch-bound",
)  # fmt: skip
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

BLOCKS, COMPUTES, SILENT, SETS_UP = 100_000, 100_000, 1_000_000, 5_000_000
LATENCY = SHORT_PAUSE = 50_000
"""From so many ns on a copy has waited, an operator of PyTorch that calls nothing computes, one of
the script's own does, and one of PyTorch that launches something loads it;
after so many a kernel should have begun, and from so many on a pause is Python."""

VIEW = "aten::t"
"""An operator that computes nothing, however long it takes."""

DRIVING = ("cpu_op", "cuda_runtime")
"""Categories in which a thread gives signs of life."""

LISTED = 1_000
"""From so many ns on idle time is a gap."""


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
    """A stretch in which a device does nothing."""

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
        """Stretches without work that are worth listing, by device and time, to the last step."""
        found = []
        for device in self.devices:
            last = max(each.end for each in (*self.steps, *self.work) if each in self.steps
                       or each.device == device)  # fmt: skip
            for start, end in self._stretches(device):
                end = min(end, last)
                if end - start >= LISTED:
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
        steps = [self._on_device(step, device) for step in self.steps]
        return [sum((_overlap(*step, *piece) for piece in pieces), Counter()) for step in steps]

    def _on_device(self, step: Span, device: int | None) -> tuple[int, int]:
        """Begin and end of a step: on a device when it has done what was launched before."""
        mine = [span for span in self.work if span.device == device]
        if device is None or not mine:
            return step.start, step.end
        kernels = [s for s in mine if s.category == "kernel" and s.work == "compute"] or mine
        times: Counter[int] = Counter()
        for span in kernels:
            times[span.stream] += span.end - span.start + 1
        streams = [stream for _, at, stream in self._order if at == device]
        main = max(streams, key=lambda stream: times[stream])
        queue = sorted(
            (span for span in mine if span.stream == main), key=lambda s: (s.start, s.start - s.end)
        )
        linked = [at for at, span in enumerate(queue) if span.launch]
        if 2 * len(linked) < len(queue):
            return step.start, step.end

        def reached(time: int) -> int:
            after = [at for at in linked if (call := queue[at].launch) and call.start >= time]
            before = queue[: after[0] if after else linked[-1] + 1]
            return max([time, *(span.end for span in before)])

        return reached(step.start), reached(step.end)

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

        Until the work that ends the stretch was launched, its thread is asked what it did; a short
        while after that is launching, and then the work waits in a queue. A thread that had waited
        until the queue was empty launches later by as long as it had waited."""
        late = self._next(device, end)
        call = late.launch if late else None
        thread = call.thread if call else self.main
        launched = call.end if call else end
        if late and self._is_early(late):
            launched = start - LATENCY
        waited = self._waited(thread, start) if call and launched > start else 0
        # Without a call it was launched before the wait in which it begins, if there is one.
        asleep = end
        if late and not call and self._state(thread, end) == "synchronisation":
            asleep = end - self._waited(thread, end)
        inner = [*self.cuts, start + waited, launched, launched + LATENCY]
        cuts = {start, end, *(cut for cut in inner if start < cut < end)}
        for begin, stop in pairwise(sorted(cuts)):
            cause = self._state(thread, begin)
            if begin >= launched + LATENCY:
                cause = "queue wait"
            elif begin >= launched:
                cause = "launch-bound"
            elif begin >= asleep:
                cause = "unexplained"
            if cause in ("python", "launch-bound") and begin < start + waited:
                cause = "synchronisation"
            yield begin, stop, cause

    def _is_early(self, late: Span) -> bool:
        """Whether it was launched before the trace begins: the first of its stream were."""
        stream = [s for s in self.work if (s.device, s.stream) == (late.device, late.stream)]
        linked = [span.start for span in stream if span.launch]
        return not late.launch and bool(linked) and late.start < min(linked)

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
        """What a thread does, where a short while of Python is part of launching."""
        state = self._doing_now(thread, time)
        if state != "python":
            return state
        before = [cut for cut in self.cuts if cut <= time]
        while len(before) > 1 and self._doing_now(thread, before[-2]) == "python":
            before.pop()
        behind = (cut for cut in self.cuts if cut > time)
        until = next(cut for cut in behind if self._doing_now(thread, cut) != "python")
        return "launch-bound" if until - before[-1] < SHORT_PAUSE else state

    def _doing_now(self, thread: int, time: int) -> str:
        """What a thread does; while nothing is recorded of it, what the main thread does, and while
        nothing is of that either, what those of the autograd engine do."""
        engine = {s.thread for s in self.host if s.category == "cpu_op" and "Backward" in s.name}
        ordered = [one for one, _, _ in self._order if one in engine]
        for each in (thread, self.main, *ordered):
            here = {self._cause(s) for s in self.host if s.thread == each and s.covers(time)}
            here.add(self._silence(each, time))
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

    def _silence(self, thread: int, time: int) -> str:
        """What a thread does in an operator while nothing begins or ends."""
        here = [s for s in self.host if s.thread == thread and s.category in DRIVING]
        calls = [s for s in here if s.category == "cuda_runtime"]
        over = [s for s in here if s.category == "cpu_op" and s.covers(time)]
        edges = [at for span in here for at in (span.start, span.end)]
        if not over or any(s.covers(time) for s in calls) or any(s.name == VIEW for s in over):
            return ""
        lasting = min(at for at in edges if at > time) - max(at for at in edges if at <= time)
        own = [s for s in over if s.name.startswith("aten::")]
        alone = [s for s in own if not any(s.start <= call.start < s.end for call in calls)]
        if alone and lasting >= COMPUTES:
            return "cpu operators"
        if len(own) > len(alone):
            return "initialisation" if lasting >= SETS_UP else ""
        scripts = [s for s in over if s not in own and not s.name.endswith("Backward0")]
        return "cpu operators" if scripts and lasting >= SILENT else ""

    def _cause(self, span: Span) -> str:
        lasting = span.end - span.start
        if span.category == "cuda_runtime" and span.cause == "launch-bound":
            if span.name == "cudaMemcpyAsync" and lasting >= BLOCKS:
                return "synchronisation"
            if lasting >= SILENT:
                return "initialisation"
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


def _overlap(since: int, until: int, start: int, end: int, name: str) -> Counter[str]:
    return +Counter({name: min(end, until) - max(start, since)})
