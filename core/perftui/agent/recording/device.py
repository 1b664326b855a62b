"""Periodic measurements of the GPU: its memory, and the time that phases take on it."""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns
from typing import Any, NamedTuple, Optional

from ...wire import ring as rings
from ...wire.ring import BACKWARD, FORWARD, OPTIMIZER
from ..safety.meter import Meter
from .output import RingWriter

PHASES = (FORWARD, BACKWARD, OPTIMIZER)

PHASE_BUDGET = 1000
"""A step that is timed may cost one part in this of the time since the last one. In a virtual
machine with slow cores and an H100 one took 1.4 ms, a third of it for six events: one in 1.4 s."""

MOST_PHASE_PAUSE_NS = 5_000_000_000
"""Longest pause after a timed step, however costly it was: the first that is timed takes long."""

MOST_PENDING = 64
"""Timed steps that the GPU may be behind; the oldest are given up."""


Times = tuple[int, int, int, int]
"""A step, and the ns of its forward, backward and optimizer, each between its beginning and its end
on the stream."""


class _Interval(NamedTuple):
    kind: int
    outer: Optional[int]
    """The enclosing phase, whose time does not include this one."""
    device: int
    begin: Any
    end: Any


class DevicePhases:
    """Marks the current stream where phases begin and end, in as many steps as its budget allows.

    Nothing here ever waits for the GPU: an event is asked whether it was passed, and read after.
    While a CUDA graph is captured nothing is marked or asked, both would break it, and the step
    stays without times.
    """

    def __init__(self, torch: Any) -> None:
        self.is_timing = False
        """Whether the phases of this step are marked."""
        self.pending: deque[tuple[int, list[_Interval]]] = deque()
        """Timed steps, oldest first, that the GPU has not been seen to finish."""
        self._cuda = torch.cuda
        self._free: dict[int, list[Any]] = {}
        self._open: list[tuple[int, int, Any]] = []
        self._intervals: list[_Interval] = []
        self._marks = 0
        """Events in the step that goes on."""
        self._not_before = 0

    def is_used(self) -> bool:
        """Whether the script uses CUDA by now."""
        return bool(self._cuda.is_initialized())

    def begin_step(self, now: int, *, is_recorded: bool = False) -> None:
        """A step begins; decides whether it is timed. Steps that a window records always are."""
        self._give_back()
        self.is_timing = (is_recorded or now >= self._not_before) and self.is_used()

    def begin(self, kind: int) -> None:
        """The phase ``kind`` begins."""
        if kind in PHASES:
            mark = self._mark()
            if mark is not None:
                self._open.append((kind, *mark))

    def end(self, kind: int) -> None:
        """The phase ``kind`` ends; those inside it that raised are forgotten."""
        while kind in PHASES and self._open:
            opened, device, begin = self._open.pop()
            if opened != kind:
                self._free[device].append(begin)
                continue
            mark = self._mark()
            if mark is None or mark[0] != device:
                self._free[device].append(begin)
                if mark is not None:
                    self._free[mark[0]].append(mark[1])
                self.abandon()
                return
            outer = self._open[-1][0] if self._open else None
            self._intervals.append(_Interval(kind, outer, device, begin, mark[1]))
            return

    def abandon(self) -> None:
        """The phases of this step cannot be timed."""
        self.is_timing = False
        self._give_back()

    def pay(self, now: int, cost: int) -> None:
        """The step that ended at ``now`` cost us ``cost`` ns, if it was timed."""
        if self._marks:
            self._not_before = now + min(PHASE_BUDGET * cost, MOST_PHASE_PAUSE_NS)
            self._marks = 0

    def end_step(self, step: int) -> bool:
        """Step ``step`` ends; whether its times will come."""
        if not self.is_timing or self._open or not self._intervals:
            return False
        self.pending.append((step, self._intervals))
        self._intervals = []
        if len(self.pending) > MOST_PENDING:
            self._reuse(self.pending.popleft()[1])
        return True

    def take(self) -> list[Times]:
        """Times of the steps that the GPU has finished, in order."""
        finished: list[Times] = []
        if not self.pending or self._cuda.is_current_stream_capturing():
            return finished
        while self.pending and all(span.end.query() for span in reversed(self.pending[0][1])):
            step, intervals = self.pending.popleft()
            finished.append(_times(step, intervals))
            self._reuse(intervals)
        return finished

    def _mark(self) -> tuple[int, Any] | None:
        if self._cuda.is_current_stream_capturing():
            self.abandon()
            return None
        device = self._cuda.current_device()
        free = self._free.setdefault(device, [])
        event = free.pop() if free else self._cuda.Event(enable_timing=True)
        event.record()
        self._marks += 1
        return device, event

    def _give_back(self) -> None:
        for _, device, event in self._open:
            self._free[device].append(event)
        self._open = []
        self._reuse(self._intervals)
        self._intervals = []

    def _reuse(self, intervals: list[_Interval]) -> None:
        for interval in intervals:
            self._free[interval.device] += (interval.begin, interval.end)


def _times(step: int, intervals: list[_Interval]) -> Times:
    spent = dict.fromkeys(PHASES, 0)
    for interval in intervals:
        ns = round(interval.begin.elapsed_time(interval.end) * 1e6)
        spent[interval.kind] += ns
        if interval.outer is not None:
            spent[interval.outer] -= ns
    return step, spent[FORWARD], spent[BACKWARD], spent[OPTIMIZER]


BUDGET = 500
"""A reading of the memory may cost one part in this of the time since the last one: at 40 us, steps
of 20 ms and more are all read where nothing else is saved on them."""


LEAST_PAUSE_NS = 100_000_000
MOST_PAUSE_NS = 1_000_000_000
SHARE = 1000
"""Similar steps are not measured for so long, and later for so many times the cost of the last
measured one: 0.3 ms in a virtual machine with slow cores."""


class Device:
    """Writes to ``ring``; ``meter`` counts its cost apart from the hooks it happens in.

    Only a few steps are measured, and that costs several times what a hook does. The memory is read
    at step boundaries, as often as its own cost allows.
    """

    def __init__(self, torch: Any, ring: RingWriter, meter: Meter) -> None:
        self.phases = DevicePhases(torch)
        self._cuda = torch.cuda
        # The public function flattens some 200 counters into a dictionary at every call.
        self._stats: Any = getattr(torch._C, "_cuda_memoryStats", None)
        self._not_before = 0
        self._retries = self._failures = 0
        """Allocations that only went through once the cache was emptied, or not even then."""
        self._ring = ring
        self._meter = meter

    def begin(self, kind: int, step_start: int) -> None:
        """The phase ``kind`` begins."""
        phases = self.phases
        if phases.pending and kind == rings.FORWARD:
            self.write_times(step_start)
        if phases.is_timing:
            mark = self._meter.begin_apart()
            phases.begin(kind)
            self._meter.end_apart(mark)

    def end(self, kind: int) -> None:
        """The phase ``kind`` ends."""
        if self.phases.is_timing:
            mark = self._meter.begin_apart()
            self.phases.end(kind)
            self._meter.end_apart(mark)

    def end_step(self, step: int, step_start: int, *, is_mixed: bool) -> bool:
        """Step ``step`` ends; whether times of its phases will come.

        ``is_mixed``: its end was found late, and some phases belong to the step that follows.
        """
        if self.phases.pending:
            self.write_times(step_start)
        if is_mixed:
            self.phases.abandon()
        return self.phases.end_step(step)

    def pay(self, end: int, hooks: int) -> int:
        """The step that ended at ``end`` took ``hooks`` ns of ours.

        Returns until when similar steps need not be measured.
        """
        self.phases.pay(end, hooks)
        if self.phases.pending:
            # Rows of later steps wait for these times, and the GPU usually is a step behind.
            return end + LEAST_PAUSE_NS
        return end + min(max(LEAST_PAUSE_NS, SHARE * hooks), MOST_PAUSE_NS)

    def write_times(self, step_start: int) -> None:
        """Write the phase times of steps that the GPU has finished."""
        mark = self._meter.begin_apart()
        finished = self.phases.take()
        self._meter.end_apart(mark)
        for step, forward, backward, optimizer in finished:
            self._ring.write(rings.DEVICE_PHASES, step_start, forward, step, backward, optimizer)

    def write_memory(self, step: int, end: int) -> Optional[int]:
        """Write the memory of the current device at the ``end`` of ``step``.

        Returns the most bytes that were ever allocated there, None if no reading is due.
        """
        if self._stats is None or perf_counter_ns() < self._not_before:
            return None
        mark = self._meter.mark()
        stats = self._stats(self._cuda.current_device())
        after = perf_counter_ns()
        self._not_before = after + BUDGET * (after - mark.wall)
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        before, self._retries = self._retries, stats.get("num_alloc_retries", 0)
        failed_before, self._failures = self._failures, stats.get("num_ooms", 0)
        # The script may set the counters back.
        retries = max(self._retries - before, 0)
        failures = max(self._failures - failed_before, 0)
        self._meter.end_apart(mark)
        write, peak = self._ring.write, int(allocated["peak"])
        write(rings.MEMORY, end, 0, step, allocated["current"], reserved["current"])
        write(rings.MEMORY_PEAK, end, 0, step, peak)
        if retries or failures:
            write(rings.MEMORY_TROUBLE, end, 0, step, retries, failures)
        return peak
