"""Writes each step to the ring once it has ended, and lets windows advance there."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from ...wire import ring as rings
from ...wire.spool import AgentOptions
from ..gpu.device import Device, MemoryReading
from ..output.ring import RingWriter
from ..overhead.meter import Mark, Meter
from ..steps.detection import EVAL, INFER, TRAIN, Boundary, StepMachine
from ..windows.windows import Windows
from .pauses import GcPauses

if TYPE_CHECKING:
    from ..gpu.memory_snapshots import MemorySnapshots

DEFAULTS = AgentOptions()

USUAL_NS = 100_000_000
USUAL_STEPS = 16
"""For so long, and so many, the window plan does not see steps that go like the ones before. It
sees each slow step, and need not see 1,000 a second. With a GPU ``Device`` decides how long."""

STEP_FLAGS = {TRAIN: 0, EVAL: rings.EVAL_FLAG, INFER: rings.INFER_FLAG}


class StepLimit(SystemExit):
    """Ends the script after the steps it was to run, as ``sys.exit(0)`` would.

    A signal would not do: scripts catch KeyboardInterrupt, and SIGINT is ignored in processes
    that a background job has started.
    """

    def __init__(self) -> None:
        super().__init__(0)


class StepWriter:
    """Steps of the thread ``thread``.

    ``steps`` decides where steps end, ``meter`` counts the agent's own cost; ``windows`` is None
    where nothing is profiled.
    """

    def __init__(
        self,
        ring: RingWriter,
        steps: StepMachine,
        meter: Meter,
        thread: int,
        device: Device,
        options: AgentOptions = DEFAULTS,
    ) -> None:
        self.steps = steps
        self.thread = thread
        self.device = device
        self.has_stepped = False
        """Whether this thread has run an optimizer: then it is the one that trains."""
        self.windows: Windows | None = None
        self.snapshots: MemorySnapshots | None = None
        self.pauses: GcPauses | None = None
        self.index = 0
        """Number of the step that is going on."""
        self.ring = ring
        self._meter = meter
        self._max_steps = options.max_steps
        self._sees_all = bool(options.losses)
        """Whether each step must be seen as it happens: losses and blocks belong to steps."""
        self._counted_steps = 0
        self._step_start = 0
        self._was_profiled = False
        """Whether a window was open in the step that goes on, or was saved at its beginning."""
        self._usual_until = 0
        """When the window plan is to see steps again."""
        self._usual_steps = 0
        """Steps that it has not seen, how long those took, and what the agent took of them."""
        self._usual_ns = 0
        self._usual_hooks = 0

    def ended(self, boundaries: list[Boundary]) -> None:
        """Steps have ended.

        Raises:
            StepLimit: they were the last ones asked for.
        """
        for boundary in boundaries:
            self._write_step(boundary)
            self._counted_steps += boundary.kind != EVAL
        if self._max_steps is not None and self._counted_steps >= self._max_steps:
            self.close()
            raise StepLimit

    @property
    def has_begun(self) -> bool:
        """Whether the first step goes on, or has ended."""
        return bool(self._step_start)

    @property
    def _is_marked(self) -> bool:
        """Whether a window records what happens now."""
        return self.windows is not None and self.windows.is_open

    def close(self) -> None:
        """The process ends: write what is there, save the open window."""
        for boundary in self.steps.finish():
            self._write_step(boundary, is_last=True)
        self.end_window()
        self._write_pauses()
        self.device.write_times(self._step_start)
        if self.snapshots is not None:
            self.snapshots.close()
        self.silence()

    def silence(self) -> None:
        """Listen to the garbage collector no more."""
        if self.pauses is not None:
            self.pauses.close()

    def end_window(self, *, is_last: bool = True) -> None:
        """End the open window in the middle of a step, if it is this thread's.

        It is saved now, or may be a step later where this is not the ``is_last`` moment for it.
        """
        if self.windows is None:
            return
        mark = self._meter.mark()
        if self.windows.close(is_last=is_last):
            self._write_profiler(mark)
            self._was_profiled = True

    def _write_step(self, boundary: Boundary, is_last: bool = False) -> None:
        duration = boundary.end - self._step_start
        is_open = self._is_marked
        flag = STEP_FLAGS[boundary.kind]
        if is_open or self._was_profiled:
            flag |= rings.PROFILED_FLAG
        self._write_pauses()
        device, reading, is_timed = self.device, None, False
        is_used = device.phases.is_used()
        if is_used:
            reading = device.write_memory(self.index, boundary.end)
            is_timed = device.phases.is_timing
            is_mixed = boundary.end < self.steps.last_activity
            if device.end_step(self.index, self._step_start, is_mixed=is_mixed):
                flag |= rings.DEVICE_FLAG
        hooks = self._meter.take(is_usual=not is_timed)
        self.ring.write(
            rings.STEP,
            self._step_start,
            duration,
            self.index,
            boundary.micro_batches,
            hooks,
            flag,
        )
        self.index += 1
        self._step_start = boundary.end
        self._was_profiled = is_open
        if is_used:
            self._usual_until = device.pay(boundary.end, hooks)
        else:
            self._usual_until = boundary.end + max(USUAL_NS, USUAL_STEPS * duration)
        if not is_last:
            self._advance_windows(boundary, duration, hooks)
        if is_used:
            device.begin_step(is_recorded=self._is_marked)
        if reading is not None and self.snapshots is not None:
            self._snapshot_memory(self.snapshots, reading)

    def _snapshot_memory(self, snapshots: MemorySnapshots, reading: MemoryReading) -> None:
        if self._is_marked:
            # It would stand in the window; the peak stays one until the next step.
            return
        mark = self._meter.mark()
        if snapshots.observe(reading.peak_allocated, self.index - 1, mark.wall):
            if self.windows is not None:
                self.windows.plan.pay(perf_counter_ns() - mark.wall)
            self._write_profiler(mark)
            self._was_profiled = True

    def _advance_windows(self, boundary: Boundary, duration: int, hooks: int) -> None:
        windows = self.windows
        if windows is None:
            return
        if self._usual_steps:
            windows.plan.usual(self._usual_steps, self._usual_ns, self._usual_hooks)
        self._usual_steps = self._usual_ns = self._usual_hooks = 0
        mark, saved = self._meter.mark(), windows.number
        if windows.boundary(boundary, duration, hooks, self.index):
            self._write_profiler(mark)
            # A fork may end a window before its first boundary comes, and saving may come later.
            self._was_profiled |= windows.is_open or windows.number > saved
        if not windows.can_wait:
            self._usual_until = 0

    def _write_profiler(self, mark: Mark) -> None:
        waited = perf_counter_ns() - mark.wall
        self.ring.write(rings.PROFILER, mark.wall, waited, self.index)
        # It has a phase of its own.
        self._meter.leave_out(mark)

    def _write_pauses(self) -> None:
        if self.pauses is None:
            return
        for pause in self.pauses.take():
            self.ring.write(rings.GC, pause.start, pause.duration, self.index, pause.generation)
