"""What one training process records: its ring, its steps, its windows."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from ...wire import ring as rings
from ...wire.spool import AgentOptions, Spool
from ..gpu.device import Device
from ..native.compiled import CompiledFastPath
from ..output.notes import Notes
from ..output.ring import create_ring
from ..overhead.hook_cost import calibrate
from ..overhead.meter import Meter
from ..startup.process import declare, process_facts
from ..steps.detection import StepMachine
from ..steps.durations import NEVER
from ..windows.windows import Windows
from .pauses import GcPauses
from .step_writer import StepWriter

PHASES = {
    rings.INPUT_WAIT: "input_wait",
    rings.LOADER_START: "loader_start",
    rings.FORWARD: "forward",
    rings.BACKWARD: "backward",
    rings.OPTIMIZER: "optimizer",
}


class Recording(StepWriter):
    """Steps and phases of the thread ``thread``."""

    def called(self, modules: int) -> None:
        """A module with so many in it is about to be called."""
        if self.windows is not None and self.windows.called(modules):
            self.end_window(is_last=False)

    def begin(self, kind: int, module: Any = None) -> int:
        """A phase begins, with a call of ``module``; when, by ``perf_counter_ns``."""
        windows = self.windows
        if windows is not None and windows.marks is not None:
            windows.marks.begin(PHASES[kind])
            if windows.modules is not None and module is not None:
                windows.modules.begin_root(module)
        self.device.begin(kind, self._step_start)
        now = perf_counter_ns()
        if not self._step_start:
            self._step_start = now
        return now

    def end(self, kind: int, start: int, value: int = 0) -> int:
        """The phase that began at ``start`` ends; when."""
        now = perf_counter_ns()
        self.ring.write(kind, start, now - start, self.index, value)
        self.steps.last_activity = now
        self.device.end(kind)
        windows = self.windows
        if windows is not None and windows.marks is not None:
            windows.marks.end(PHASES[kind])
        return now

    def now(self) -> int:
        """The clock of all records; the first reading begins the first step."""
        now = perf_counter_ns()
        if not self._step_start:
            self._step_start = now
        return now

    def knows_all(self) -> bool:
        """Whether nobody but the machine of steps must see the events of the next step.

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
            # The last one ends the training.
            fast_path.most_steps = self._max_steps - self._counted_steps - 1
        fast_path.slow_after, fast_path.plan, fast_path.planned = NEVER, 0, 0
        if self.windows is not None:
            fast_path.slow_after = self.windows.plan.triggers.slow_after
            fast_path.plan, fast_path.planned = self.windows.plan.rank_sync.plan

    def take_back(self, fast_path: CompiledFastPath) -> None:
        """Go on where ``fast_path`` has come to."""
        self.index, self._step_start = fast_path.index, fast_path.step_start
        self.steps.last_activity = fast_path.last_activity
        self._counted_steps += fast_path.steps
        self._usual_steps += fast_path.steps
        self._usual_ns += fast_path.steps_ns
        self._usual_hooks += fast_path.steps_hooks

    def follow(self, thread: int) -> None:
        """Another thread turns out to be the one that trains."""
        self.thread = thread
        if self.pauses is not None:
            self.pauses.thread = thread

    def foreign_profiler(self, profiler: Any, begins: bool) -> None:
        """The script starts ``profiler``, or has ended it; one runs at a time, so ours ends."""
        if self.windows is None or self.windows.is_ours(profiler):
            return
        if begins:
            self.end_window()
        self.windows.foreign_profiler(begins)


def start_recording(
    torch: Any,
    spool: Path,
    options: AgentOptions,
    notes: Notes,
    steps: StepMachine,
    meter: Meter,
    thread: int,
) -> Recording:
    """Create this process's ring and begin.

    Raises:
        OSError: the spool is full or gone.
    """
    declare(options.tracer)
    facts = process_facts(torch)
    header = {name: facts[name] for name in ("pid", "rank", "world_size")}
    ring = create_ring(Spool(spool).ring(os.getpid()), header)
    notes.begin(facts, ring.lose_notes)
    device = Device(torch, ring, meter)
    recording = Recording(ring, steps, meter, thread, device, options)
    if options.profile:
        recording.windows = Windows(torch, spool, options, notes)
    recording.pauses = GcPauses(thread)
    calibrate(meter)
    return recording
