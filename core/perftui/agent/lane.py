"""The short way through the hooks, for steps that go like the ones before.

A hook runs once a millisecond at most, when the caches hold little of it: its cost is not what it
computes but how many functions and objects it touches. Hooks that each told everybody concerned
took a tenth of steps of 1.3 ms. In a loop that is known they write their records and note what has
happened, and no more; who decides by that is told when something else happens.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Any

from .loader import UNKNOWN, batches_ready, fetches_itself
from .ring import INPUT_CPU, INPUT_WAIT, OPTIMIZER
from .steps import StepMachine

if TYPE_CHECKING:
    from .meter import Meter
    from .optimizers import Optimizers
    from .recording import Recording

FETCHED, WITH_GRADIENTS, WITHOUT, WENT_BACK, STEPPED = range(5)
"""Events of a step: a batch has come, a module is called with gradients or without, a backward pass
begins, optimizer 0 has stepped. The numbers after it are those of other optimizers."""

MOST_EVENTS = 48
"""Of one step; fewer than the optimizer steps after which a loop is believed to fetch no more."""

HELD_BACK_NS = 50_000_000
"""So long, phases may wait for the end of their step to be written: all at once, they need the code
of the ring in the caches once a step. A process that is killed loses those of its last step, of
which nothing is shown without its end."""


class Lane:
    """Open for one thread while its steps end where one iterator is asked for the next batch.

    Whatever happens otherwise closes it first. ``keeps`` is told of errors, as in ``contained``.
    """

    def __init__(self, torch: Any, keeps: Callable[[BaseException], bool]) -> None:
        self.inside = False
        """Whether hooks let all pass: a phase is going on, or recording is off. The hooks set it
        where nothing can come between that and the phase: an interrupt may come as they are left
        that enter it."""
        self._keeps = keeps
        self._is_grad_enabled = torch.is_grad_enabled
        self.reset()

    def reset(self) -> None:
        """Be as at the start, whatever has happened."""
        self.is_open = False
        self.thread = 0
        """The one whose hooks may come here by themselves: 0 while it is closed, or a step is
        measured, in which they come by way of the session."""
        self.events: list[int] = []
        """What has happened in the step that goes on and the machine of steps does not know."""
        self._phases: list[tuple[int, int, int, int]] = []
        """Those of the step that goes on which are not yet written, as ``write_all`` takes them."""
        self._write_from = 0
        """When the next phase that ends is written at once."""
        self.ready = UNKNOWN
        """Batches that were ready when the one was asked for that is being fetched."""
        self.cpu_start: int | None = None
        """CPU time of the thread at that moment, where it fetches the batch itself."""
        self._usual: list[int] | None = None
        """Events after which a step has ended and left the machine as it was; None before one."""
        self._micro_batches = 1
        """Of such a step."""
        self._state: tuple[object, ...] = ()
        """How the machine was when the step began."""

    def learn(self, events: list[int], micro_batches: int, state: tuple[object, ...]) -> None:
        """A step of ``micro_batches`` has left the machine in ``state``.

        ``events`` are all of that step, or none if it was not on the lane as a whole.
        """
        if state != self._state:
            self._state, self._usual = state, None
        elif events:
            self._usual, self._micro_batches = events, micro_batches

    def open(
        self,
        recording: Recording,
        meter: Meter,
        optimizers: Optimizers,
        iterator: Callable[[], Any],
    ) -> None:
        """A step has ended, and ``iterator`` is asked for the next batch."""
        self._recording, self._meter, self._optimizers = recording, meter, optimizers
        self._iterator = iterator
        self._has_workers = not fetches_itself(iterator())
        self._write_from = perf_counter_ns() + HELD_BACK_NS
        self.is_open = True
        self.thread = 0 if meter.is_sampling else recording.thread

    def close(self) -> list[int]:
        """Have the machine told of everything itself; returns the events that it is told of now."""
        if not self.is_open:
            return []
        self.is_open = False
        self.thread = 0
        self._write_phases()
        events, self.events = self.events, []
        if not self._meter.is_sampling:
            self._meter.calls += 2 * len(events)
        tell(self._recording.steps, events)
        return events

    def fetches(self, iterator: Any) -> bool:
        """Whether ``iterator`` is the one whose batches end the steps."""
        return self.is_open and self._iterator() is iterator

    def enter_fetch(self, iterator: Any) -> int:
        """``iterator`` is asked for a batch: the step ends.

        When that began, or 0 if it is another iterator or the step was not as usual.
        """
        try:
            events, recording = self.events, self._recording
            if self._iterator() is not iterator or events != self._usual:
                return 0
            self._write_phases()
            if not recording.end_usual(self._micro_batches, 2 * len(events)):
                return 0
            events.clear()
            self.thread = 0 if self._meter.is_sampling else recording.thread
            if self._has_workers:
                self.ready = batches_ready(iterator)
            else:
                self.cpu_start = thread_time_ns()
            start = perf_counter_ns()
            self._write_from = start + HELD_BACK_NS
            return start
        except BaseException as error:
            if not self._keeps(error):
                raise
            return 0

    def leave_fetch(self, start: int) -> None:
        """A batch has come."""
        self.inside = False
        try:
            phases, end = self._phases, perf_counter_ns()
            phases.append((INPUT_WAIT, start, end, self.ready))
            if self.cpu_start is not None:
                phases.append((INPUT_CPU, end, end, thread_time_ns() - self.cpu_start))
            if end > self._write_from:
                self._write_phases()
            self.events.append(FETCHED)
        except BaseException as error:
            if not self._keeps(error):
                raise

    def enter_forward(self) -> int:
        """The outermost module is called; when, or 0 where the step may end otherwise than here."""
        try:
            if self._iterator() is None or len(self.events) >= MOST_EVENTS:
                return 0
            self.events.append(WITH_GRADIENTS if self._is_grad_enabled() else WITHOUT)
            return perf_counter_ns()
        except BaseException as error:
            if not self._keeps(error):
                raise
            return 0

    def enter_backward(self) -> int:
        """The autograd engine is called; when."""
        try:
            self.events.append(WENT_BACK)
            return perf_counter_ns()
        except BaseException as error:
            if not self._keeps(error):
                raise
            return 0

    def leave(self, kind: int, start: int) -> None:
        """A forward or backward pass has returned or raised."""
        self.inside = False
        try:
            end = perf_counter_ns()
            self._phases.append((kind, start, end, 0))
            if end > self._write_from:
                self._write_phases()
        except BaseException as error:
            if not self._keeps(error):
                raise

    def enter_optimizer(self, optimizer: Any) -> bool:
        """``optimizer.step`` begins; whether it is the one that is known, and no other goes on."""
        try:
            optimizers = self._optimizers
            last = optimizers.last
            if optimizers.open or last is None or last[0]() is not optimizer:
                return False
            optimizers.open.append((last[0], perf_counter_ns()))
        except BaseException as error:
            if not self._keeps(error):
                raise
        return True

    def leave_optimizer(self, optimizer: Any) -> bool:
        """``optimizer.step`` has done its work; whether it is the one that began here, and the
        step does not end with it."""
        try:
            if self._iterator() is None or len(self.events) >= MOST_EVENTS:
                return False
            optimizers = self._optimizers
            last, going_on = optimizers.last, optimizers.open
            if last is None or len(going_on) != 1 or going_on[0][0]() is not optimizer:
                return False
            start, end = going_on.pop()[1], perf_counter_ns()
            self._phases.append((OPTIMIZER, start, end, 0))
            if end > self._write_from:
                self._write_phases()
            optimizers.finished += 1
            self.events.append(STEPPED + last[1])
        except BaseException as error:
            if not self._keeps(error):
                raise
        return True

    def _write_phases(self) -> None:
        phases, recording = self._phases, self._recording
        if not phases:
            return
        # First: what is broken off by an interrupt must not be written twice.
        self._phases = []
        recording.steps.last_activity = phases[-1][2]
        recording.ring.write_all(phases, recording.index)


def tell(machine: StepMachine, events: list[int]) -> None:
    """Have ``machine`` see ``events``, none of which ends a step."""
    for event in events:
        if event == FETCHED:
            machine.fetched()
        elif event == WENT_BACK:
            machine.backward()
        elif event >= STEPPED:
            machine.optimizer(event - STEPPED, 0, True)
        else:
            machine.forward(0, event == WITH_GRADIENTS, True)
