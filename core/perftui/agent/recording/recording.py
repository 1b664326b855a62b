"""Records the training thread of one process: phases, steps, windows."""

from __future__ import annotations

import gc
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...wire import ring as rings
from ...wire.spool import AgentOptions
from ..native import CompiledFastPath, CompiledPauses
from ..safety.meter import Mark, Meter
from ..windows.budget import NEVER
from ..windows.windows import Windows
from .device import Device
from .output import RingWriter
from .steps import EVAL, INFER, TRAIN, Boundary, StepMachine

if TYPE_CHECKING:
    from .memory_snapshots import MemorySnapshots

USUAL_NS = 100_000_000
USUAL_STEPS = 16
"""For so long, and so many, the window plan does not see usual steps. It sees each slow step, and
need not see 1,000 a second. With a GPU ``Device`` decides how long."""

STEP_FLAGS = {TRAIN: 0, EVAL: rings.EVAL_FLAG, INFER: rings.INFER_FLAG}

DEFAULTS = AgentOptions()


class StepLimit(SystemExit):
    """Ends the script after the requested number of steps, as ``sys.exit(0)`` would.

    A signal would not do: scripts catch KeyboardInterrupt, and SIGINT is ignored in processes that
    a background job has started.
    """

    def __init__(self) -> None:
        super().__init__(0)


class GcPauses(CompiledPauses):
    """Keeps the garbage collector's pauses of one thread until ``take``.

    They are not written where they happen: a collection may start in the middle of a write.
    """

    def __init__(self, thread: int) -> None:
        super().__init__()
        self.thread = thread
        self.found = []
        """Pauses since the last ``take``: always the same list object."""
        gc.callbacks.append(self.on_phase)

    def take(self) -> list[tuple[int, int, int]]:
        """Start (``perf_counter_ns``), duration and generation of pauses since the last call."""
        pauses = self.found[:]
        del self.found[: len(pauses)]
        return pauses

    def close(self) -> None:
        """Stop listening."""
        if self.on_phase in gc.callbacks:
            gc.callbacks.remove(self.on_phase)


class Recording:
    """Steps and phases of the thread ``thread``.

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
        """Whether a window was open in the current step, or was saved at its beginning."""
        self._usual_until = 0
        """When the window plan is to see steps again."""
        self._usual_steps = self._usual_ns = self._usual_hooks = 0
        """Steps that it has not seen, their total duration, and the agent's part of that."""

    @property
    def has_begun(self) -> bool:
        """Whether the first step goes on, or has ended."""
        return bool(self._step_start)

    @property
    def _is_marked(self) -> bool:
        """Whether a window is recording now."""
        return self.windows is not None and self.windows.is_open

    def called(self, modules: int) -> None:
        """A module with ``modules`` in it is about to be called."""
        if self.windows is not None and self.windows.called(modules):
            self.end_window(is_last=False)

    def now(self) -> int:
        """The clock of all records; the first reading begins the first step."""
        now = perf_counter_ns()
        if not self._step_start:
            self._step_start = now
        return now

    def begin(self, kind: int, module: Any = None) -> int:
        """A phase begins, with a call of ``module``; returns the time by ``perf_counter_ns``."""
        windows = self.windows
        if windows is not None and windows.marks is not None:
            windows.marks.begin(rings.KINDS[kind])
            if windows.modules is not None and module is not None:
                windows.modules.begin_root(module)
        self.device.begin(kind, self._step_start)
        now = perf_counter_ns()
        if not self._step_start:
            self._step_start = now
        return now

    def end(self, kind: int, start: int, value: int = 0) -> int:
        """The phase that began at ``start`` ends; returns the time."""
        now = perf_counter_ns()
        self.ring.write(kind, start, now - start, self.index, value)
        self.steps.last_activity = now
        self.device.end(kind)
        windows = self.windows
        if windows is not None and windows.marks is not None:
            windows.marks.end(rings.KINDS[kind])
        return now

    def ended(self, boundaries: list[Boundary]) -> None:
        """Steps have ended. Raises StepLimit if they were the last ones asked for."""
        for boundary in boundaries:
            self._write_step(boundary)
            self._counted_steps += boundary.kind != EVAL
        if self._max_steps is not None and self._counted_steps >= self._max_steps:
            self.close()
            raise StepLimit

    def close(self) -> None:
        """The process ends: write everything, save the open window."""
        for boundary in self.steps.finish():
            self._write_step(boundary, is_last=True)
        self.end_window()
        self._write_pauses()
        self.device.write_times(self._step_start)
        if self.snapshots is not None:
            self.snapshots.close()
        self.silence()

    def silence(self) -> None:
        """Stop listening to the garbage collector."""
        if self.pauses is not None:
            self.pauses.close()

    def follow(self, thread: int) -> None:
        """Another thread turns out to be the one that trains."""
        self.thread = thread
        if self.pauses is not None:
            self.pauses.thread = thread

    def end_window(self, *, is_last: bool = True) -> None:
        """End the open window in the middle of a step, if it is this thread's.

        It is saved now, or perhaps a step later unless this ``is_last``, the last opportunity.
        """
        if self.windows is None:
            return
        mark = self._meter.mark()
        if self.windows.close(is_last=is_last):
            self._write_profiler(mark)
            self._was_profiled = True

    def foreign_profiler(self, profiler: Any, begins: bool) -> None:
        """The script starts or has ended ``profiler``; only one can run at a time, so ours ends."""
        if self.windows is None or self.windows.is_ours(profiler):
            return
        if begins:
            self.end_window()
        self.windows.foreign_profiler(begins)

    def knows_all(self) -> bool:
        """Whether only the step machine needs the events of the next step.

        Asked when a step has just ended.
        """
        is_marked = self._is_marked or self._was_profiled
        return not (is_marked or self._sees_all or self.device.phases.is_timing)

    def lend(self, fast_path: CompiledFastPath) -> None:
        """Let ``fast_path`` write steps and phases for a while."""
        fast_path.own_thread = self.thread
        fast_path.ring, fast_path.capacity = self.ring.address, self.ring.capacity
        fast_path.index, fast_path.step_start = self.index, self._step_start
        fast_path.last_activity = self.steps.last_activity
        fast_path.pauses = self.pauses.found if self.pauses is not None else []
        fast_path.usual_until = self._usual_until
        fast_path.most_steps = NEVER
        if self._max_steps is not None:
            # The last step ends the training.
            fast_path.most_steps = self._max_steps - self._counted_steps - 1
        fast_path.slow_after, fast_path.plan, fast_path.planned = NEVER, 0, 0
        if self.windows is not None:
            fast_path.slow_after = self.windows.plan.triggers.times.slow_after
            fast_path.plan, fast_path.planned = self.windows.plan.rank_sync.plan

    def take_back(self, fast_path: CompiledFastPath) -> None:
        """Go on from the state that ``fast_path`` has reached."""
        self.index, self._step_start = fast_path.index, fast_path.step_start
        self.steps.last_activity = fast_path.last_activity
        self._counted_steps += fast_path.steps
        self._usual_steps += fast_path.steps
        self._usual_ns += fast_path.steps_ns
        self._usual_hooks += fast_path.steps_hooks

    def _write_step(self, boundary: Boundary, is_last: bool = False) -> None:
        start, duration = self._step_start, boundary.end - self._step_start
        is_open = self._is_marked
        flag = STEP_FLAGS[boundary.kind]
        if is_open or self._was_profiled:
            flag |= rings.PROFILED_FLAG
        self._write_pauses()
        device, peak, is_timed = self.device, None, False
        is_used = device.phases.is_used()
        if is_used:
            peak = device.write_memory(self.index, boundary.end)
            is_timed = device.phases.is_timing
            is_mixed = boundary.end < self.steps.last_activity
            if device.end_step(self.index, start, is_mixed=is_mixed):
                flag |= rings.DEVICE_FLAG
        hooks = self._meter.take(is_usual=not is_timed)
        micro_batches = boundary.micro_batches
        self.ring.write(rings.STEP, start, duration, self.index, micro_batches, hooks, flag)
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
            device.phases.begin_step(perf_counter_ns(), is_recorded=self._is_marked)
        if peak is not None and self.snapshots is not None:
            self._snapshot_memory(self.snapshots, peak)

    def _snapshot_memory(self, snapshots: MemorySnapshots, peak: int) -> None:
        if self._is_marked:
            # It would show up in the window; the peak remains until the next step.
            return
        mark = self._meter.mark()
        if snapshots.observe(peak, self.index - 1, mark.wall):
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
            # A fork may end a window before its first boundary, and it may be saved later.
            self._was_profiled |= windows.is_open or windows.number > saved
        if not windows.can_wait:
            self._usual_until = 0

    def _write_profiler(self, mark: Mark) -> None:
        waited = perf_counter_ns() - mark.wall
        self.ring.write(rings.PROFILER, mark.wall, waited, self.index)
        # The profiler has a phase of its own.
        self._meter.leave_out(mark)

    def _write_pauses(self) -> None:
        for start, duration, generation in self.pauses.take() if self.pauses is not None else ():
            self.ring.write(rings.GC, start, duration, self.index, generation)
