"""The fast path: compiled hooks for steps that repeat the ones before.

A hook runs once a millisecond at most, when the caches hold little of it: its cost is not what it
computes but how many functions and objects it touches. Hooks that updated every object concerned
took a tenth of steps of 1.3 ms. In a loop that is known, compiled hooks (``fast_path.c``) only
write their records and note the events; the step machine and the meter learn of those when
something else happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dataloader.loaders import batches_ready, fetches_itself
from ..dataloader.worker_times import FETCH_CALLS
from ..native import CompiledFastPath
from .steps import StepMachine

if TYPE_CHECKING:
    from ..safety.meter import Meter
    from .recording import Recording
    from .steps import Optimizers

FETCHED, WITH_GRADIENTS, WITHOUT, WENT_BACK, ASKED, STEPPED = range(6)
"""Events of a step: a batch has come, a module is called with gradients or without, a backward pass
begins, a further batch is asked for, optimizer 0 has stepped. The numbers after it are those of
other optimizers. As in ``fast_path.c``."""

MOST_OPTIMIZERS = 8
"""Optimizers that an open fast path knows. As in ``fast_path.c``."""

MOST_NUMBERS = (1 << 16) - STEPPED
"""Optimizers with higher numbers, in scripts that make one for each task, take the slow path: an
event has 16 bits."""


class FastPath(CompiledFastPath):
    """Open for one thread while its steps end alike: where one iterator is asked for the next batch
    or, where no loader is in use, with the step of an optimizer.

    Anything else closes it first. ``guards`` decides about errors, as in ``guarded``.
    """

    def __init__(self, torch: Any, guards: Callable[[BaseException], bool]) -> None:
        self.is_grad_enabled = torch.is_grad_enabled
        self.batches_ready = batches_ready
        self.guards = guards
        self.finished = 0
        self.reset()

    def reset(self) -> None:
        """Return to the initial state."""
        self.inside = self.is_off = self.goes_back = False
        self.is_open = self.is_fetching = False
        self.going_on = -1
        self.usual = None
        self.events = []
        self._state: object = None
        """State of the machine when the step began."""
        self._known_steps = 0
        """How many of the steps that ended here the meter has counted."""
        self._is_lent = False
        """Whether the recording will go on from the state reached here."""

    def learn(self, events: list[int], micro_batches: int, state: object) -> None:
        """A step of ``micro_batches`` has left the machine in ``state``.

        ``events`` are all of that step, or none if parts of it were not on the fast path.
        """
        if state != self._state:
            self._state, self.usual = state, None
        elif events:
            self.usual, self.micro_batches = events, micro_batches

    def open(
        self,
        recording: Recording,
        meter: Meter,
        optimizers: Optimizers,
        events: list[int],
        *,
        is_fed: bool,
    ) -> None:
        """Open in a step with ``events`` that all others have seen, when ``iterator`` is asked for
        a batch or, without a loader, after an optimizer step."""
        self._recording, self._meter, self._optimizers = recording, meter, optimizers
        self.is_fed = is_fed
        self.has_workers = is_fed and not fetches_itself(self.iterator())
        self.fetch_calls = 0 if self.has_workers else FETCH_CALLS
        self._entries = [entry for entry in optimizers.known() if entry[1] < MOST_NUMBERS]
        self.optimizers = self._entries
        self.events = events
        self.n_reported = len(events)
        recording.lend(self)
        self._is_lent = True
        self.steps = self.steps_ns = self.steps_hooks = self._known_steps = self.calls = 0
        self._follow(meter)
        self.is_open = True

    def close(self) -> list[int]:
        """Report everything that happened here; returns the events of the current step."""
        if not self.is_open:
            return []
        self.is_open = False
        events = self.events
        try:
            self._hand_over(events)
        except BaseException:
            # A signal handler may raise where a function begins. Whatever was not handed over by
            # then is handed over now, or steps would get the numbers of those that ended here.
            self._hand_over(events)
            raise
        return events

    def _hand_over(self, events: list[int]) -> None:
        """Hand over everything once: a second call counts nothing twice."""
        if self._is_lent:
            self._recording.take_back(self)
            self._is_lent = False
        # Noted first: if the meter misses steps, only the choice of measured steps changes.
        ended, self._known_steps = self.steps - self._known_steps, self.steps
        self._meter.pass_by(ended)
        calls, self.calls = self.calls, 0
        self._meter.estimated += round(calls * self.call_ns)
        if self.going_on >= 0:
            (optimizer, _), self.going_on = self._entries[self.going_on], -1
            self._optimizers.open.append((optimizer, self.optimizer_start))
        for event in events[self.n_reported :]:
            report_event(self._recording.steps, event, self.is_fed)
            self.n_reported += 1

    def update_meter(self, ending: int) -> None:
        """A measured step begins, or ``ending`` measured steps end."""
        self._meter.learn_compiled(self.sampled_ns, self.sampled_calls)
        ended = self.steps + ending
        self._meter.pass_by(ended - self._known_steps)
        self._known_steps = ended
        self._follow(self._meter)

    def _follow(self, meter: Meter) -> None:
        self.is_sampling = meter.is_sampling
        self.until_sample = meter.until_sample
        self.call_ns = meter.compiled_call_ns
        self.sampled_ns = self.sampled_calls = 0


def report_event(machine: StepMachine, event: int, is_fed: bool) -> None:
    """Have ``machine`` see ``event``, which ends no step."""
    if event == FETCHED:
        machine.fetched()
    elif event == ASKED:
        machine.fetch(0)
    elif event == WENT_BACK:
        machine.backward()
    elif event >= STEPPED:
        machine.optimizer(event - STEPPED, 0, is_fed)
    else:
        machine.forward(0, event == WITH_GRADIENTS, is_fed)
