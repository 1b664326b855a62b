"""Window triggers: when a window is wanted, and why."""

from __future__ import annotations

from collections.abc import Callable

from ...wire.control_page import ControlPage
from ..overhead.budget import Budget
from ..steps.durations import UsualStep, WarmUp

WARM, REGULAR, SLOW = "warm", "regular", "slow"
ASKED, CHOSEN, JOINT = "asked", "chosen", "joint"
"""Why a window is opened: the training has warmed up, it is time for the next, a step was slow, a
viewer has asked, its step was named before the run, another rank opens one."""

LEAST_PAUSE_NS = 20_000_000_000
MOST_PAUSE_NS = 1_800_000_000_000
PAUSE_OF_AGE = 5
"""Between two regular windows lies a fifth of the time since the training began, 20 s to half an
hour: dozens in the first hours, where people look, and some hundred MB in a week."""

CREDIT_NS = 150_000_000
"""What the first window may cost before that is earned: the longest that any is to hold up a
training. Steps of hundreds of forward passes, as those that generate text, would cost seconds."""

SLOW_PAUSE = 4
"""After a slow step a quarter of the pause is enough."""


class WindowTriggers:
    """Asks for a window once the training is warm, then as often as ``budget`` allows.

    The first one is opened on credit, if it is not expected to be dear; so are those that a viewer
    asks for. The pause to the next is the longer for them. With ``first_step`` there is one window,
    from that step on.
    """

    def __init__(self, budget: Budget, control: ControlPage, first_step: int | None = None) -> None:
        self._budget = budget
        self._control = control
        self._first_step = first_step
        self._warm_up = WarmUp()
        self._usual = UsualStep()
        self._is_first = True
        self.is_postponed = False
        """Whether the first one was too dear so far."""
        self._was_slow = False
        self._regular_at = 0
        self._slow_at = 0

    @property
    def typical(self) -> int:
        """What a step takes, ns; 0 before the first."""
        return self._usual.duration or self._warm_up.typical

    @property
    def slow_after(self) -> int:
        """What a step takes at most that is not slow, in ns."""
        return self._usual.slow_after

    @property
    def is_settled(self) -> bool:
        """Whether only time, a slow step or a viewer triggers another window."""
        has_begun = self.is_postponed or not self._is_first
        return self._warm_up.is_over and has_begun and self._first_step is None

    def begin_anew(self) -> None:
        """Steps of another kind begin: they warm up for themselves, and their first window is one.

        One on credit of what came before may not cost the training its own: a loop of very many
        calls takes up the budget with their hooks, and earns none.
        """
        self._warm_up = WarmUp()
        self._usual = UsualStep()
        self._was_slow = False
        self._is_first |= self._first_step is None
        self.is_postponed = False

    def step(self, duration: int) -> None:
        """A step has taken ``duration`` ns, undisturbed by any window."""
        if self._warm_up.is_over:
            self._was_slow = self._usual.step(duration)
        else:
            self._warm_up.step(duration)

    def ended(self, now: int, is_too_short: bool) -> None:
        """A window has ended. One that is too short is followed as soon as the budget allows."""
        self._is_first = self.is_postponed = False
        pause = min(max(self._budget.age(now) // PAUSE_OF_AGE, LEAST_PAUSE_NS), MOST_PAUSE_NS)
        self._regular_at = now if is_too_short else now + pause
        self._slow_at = min(self._regular_at, now + pause // SLOW_PAUSE)

    def is_asked_for(self) -> bool:
        """Whether a viewer has asked since this was called last."""
        return self._control.requested()

    def next(self, now: int, next_step: int, price: Callable[[], int]) -> str | None:
        """Why a window is wanted from the step after ``next_step`` on; None where none is.

        ``price`` returns what it would cost, ns.
        """
        was_slow, self._was_slow = self._was_slow, False
        if self.is_asked_for():
            return ASKED
        if self._first_step is not None:
            if not self._is_first or next_step + 1 < self._first_step:
                return None
            self._is_first = False
            return CHOSEN
        if not self._warm_up.is_over:
            return None
        if self._is_first:
            cost = price()
            self.is_postponed = cost > CREDIT_NS and not self._budget.allows(now, cost)
            self._is_first = self.is_postponed
            return None if self.is_postponed else WARM
        if now < (self._slow_at if was_slow else self._regular_at):
            return None
        if not self._budget.allows(now, price()):
            return None
        return SLOW if was_slow else REGULAR
