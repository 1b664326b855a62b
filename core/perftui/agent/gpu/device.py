"""What is recorded of the GPU: its memory and what phases take on it, now and then."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any, NamedTuple, Optional

from ...wire import ring as rings
from ..output.ring import RingWriter
from ..overhead.meter import Meter
from .phase_times import DevicePhases

BUDGET = 500
"""A reading may cost one part in this of the time since the last one: at 40 us, steps of 20 ms and
more are all read where nothing else is saved on them."""


class MemoryReading(NamedTuple):
    """Bytes of the current device."""

    allocated: int
    reserved: int
    peak_allocated: int
    retries: int
    """Allocations, since the reading before, that only went through once the cache was emptied."""
    failures: int
    """Allocations, since then, that did not."""


class MemoryProbe:
    """Reads at step boundaries, as often as its own cost allows."""

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        # The public function flattens some 200 counters into a dictionary at every call.
        self._stats: Any = getattr(torch._C, "_cuda_memoryStats", None)
        self._not_before = 0
        self._retries = 0
        self._failures = 0

    def is_due(self, now: int) -> bool:
        """Whether this torch has something to read and it is time for that."""
        return self._stats is not None and now >= self._not_before

    def read(self, now: int, clock: Any) -> MemoryReading:
        """A reading, where it is due and CUDA is in use."""
        stats = self._stats(self._cuda.current_device())
        after = clock()
        self._not_before = after + BUDGET * (after - now)
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        retries, self._retries = self._retries, stats.get("num_alloc_retries", 0)
        failures, self._failures = self._failures, stats.get("num_ooms", 0)
        return MemoryReading(
            allocated["current"],
            reserved["current"],
            allocated["peak"],
            # The script may set the counters back.
            max(self._retries - retries, 0),
            max(self._failures - failures, 0),
        )


LEAST_PAUSE_NS = 100_000_000
MOST_PAUSE_NS = 1_000_000_000
SHARE = 1000
"""Steps that go like the ones before are not measured for so long, and in between for so many times
what the last measured one cost: 0.3 ms in a virtual machine with slow cores."""


class Device:
    """Writes to ``ring``; what that costs ``meter`` counts apart from the hooks it happens in.

    Only a few steps are measured, and that costs several times what a hook does.
    """

    def __init__(self, torch: Any, ring: RingWriter, meter: Meter) -> None:
        self.phases = DevicePhases(torch)
        self.memory = MemoryProbe(torch)
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

        ``is_mixed``: that was found out later, and some phases belong to the step that follows.
        """
        if self.phases.pending:
            self.write_times(step_start)
        if is_mixed:
            self.phases.abandon()
        return self.phases.end_step(step)

    def pay(self, end: int, hooks: int) -> int:
        """The step that ended at ``end`` took ``hooks`` ns of ours.

        Returns until when steps that go like it need not be measured.
        """
        self.phases.pay(end, hooks)
        if self.phases.pending:
            # Rows of later steps wait for these times, and the GPU is a step behind as a rule.
            return end + LEAST_PAUSE_NS
        return end + min(max(LEAST_PAUSE_NS, SHARE * hooks), MOST_PAUSE_NS)

    def begin_step(self, *, is_recorded: bool) -> None:
        """A step begins, in a window if ``is_recorded``."""
        self.phases.begin_step(perf_counter_ns(), is_recorded=is_recorded)

    def write_times(self, step_start: int) -> None:
        """What phases took on the GPU in the steps that it has finished."""
        mark = self._meter.begin_apart()
        taken = self.phases.take()
        self._meter.end_apart(mark)
        for times in taken:
            self._ring.write(
                rings.DEVICE_PHASES,
                step_start,
                times.forward,
                times.step,
                times.backward,
                times.optimizer,
            )

    def write_memory(self, step: int, end: int) -> Optional[MemoryReading]:
        """The memory at the ``end`` of ``step``, where it is time for that."""
        if not self.memory.is_due(perf_counter_ns()):
            return None
        mark = self._meter.mark()
        reading = self.memory.read(mark.wall, perf_counter_ns)
        self._meter.end_apart(mark)
        write = self._ring.write
        write(rings.MEMORY, end, 0, step, reading.allocated, reading.reserved)
        write(rings.MEMORY_PEAK, end, 0, step, reading.peak_allocated)
        if reading.retries or reading.failures:
            write(rings.MEMORY_TROUBLE, end, 0, step, reading.retries, reading.failures)
        return reading
