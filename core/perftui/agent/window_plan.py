"""When the next window opens, how many steps it has, and what windows have cost."""

from __future__ import annotations

from pathlib import Path

from .budget import Budget
from .control import Control
from .module_calls import ModuleCalls
from .occasions import ASKED, CHOSEN, JOINT, Occasions
from .options import Options
from .ranks_together import RanksTogether, usual_lead
from .steps import EVAL, TRAIN, Boundary
from .window_length import window_steps

MOST_ATTEMPTS = 3
"""Windows in a row that are ended from outside before a step is whole: a training that forks its
workers anew after every batch would start and stop the profiler for ever and never have one."""

MUCH_LONGER = 2
"""A first window is followed by another as soon as may be if that has so many times the steps."""

LONG_EVALUATION = 1000
"""Steps of evaluation before any training after which a script with an optimizer is believed to do
nothing else. A check before the training is shorter, and whatever is recorded of it delays the
first window of the training, which pays for it. Counted, not timed, so that ranks agree."""


class WindowPlan:
    """Is told of every step and of what happens to windows; opens none and reads no clock."""

    def __init__(self, spool: Path, options: Options) -> None:
        self.reason = ""
        """Why the last window was opened."""
        self.calls = ModuleCalls()
        self._options = options
        control = Control(spool)
        self._budget = Budget(options.overhead)
        self._occasions = Occasions(self._budget, control, options.first_step)
        self._together = RanksTogether(control)
        self._now = 0
        """When the last step ended."""
        self._has_trained = False
        self._evaluated = 0
        """Steps of evaluation before the first of training."""
        self._counted = 0
        """Steps of training; before the first of them, steps of any kind."""
        self._wanted: str | None = None
        self._attempts = 0
        self._waited = 0
        """How long the training has waited for windows in the step that goes on."""
        self._last_steps = 0
        self._stall_per_step: int | None = None

    def step(self, ended: Boundary, duration: int, hooks: int, is_open: bool) -> None:
        """A step has ended after ``duration`` ns, of which the agent took ``hooks``.

        ``is_open`` tells whether a window was open, which makes it longer. A script that only
        infers is looked at like one that trains, and one that only evaluates after a while; once a
        training step has come, evaluation counts no more.
        """
        waited, self._waited = self._waited, 0
        undisturbed = max(duration - waited, 0)
        self._now = ended.end
        self._budget.step(ended.end, duration, hooks)
        self.calls.end_step()
        if ended.kind == TRAIN and not self._has_trained:
            self._begin_training()
        if ended.kind == EVAL and not self._only_evaluates():
            return
        self._counted += 1
        if not is_open:
            self._occasions.step(undisturbed)
        elif self._occasions.typical:
            self._budget.slow(undisturbed - self._occasions.typical)

    @property
    def can_wait(self) -> bool:
        """Whether steps like the ones before may be told of by ``usual`` instead, a while later."""
        is_idle = self._wanted is None and not self._attempts and not self._waited
        return is_idle and self._occasions.is_settled and self._together.can_wait(self._counted)

    @property
    def together(self) -> tuple[int, int]:
        """Where ranks plan windows in memory, 0 for nowhere, and which plan is known."""
        return self._together.plan

    @property
    def slow_after(self) -> int:
        """What a step takes at most that is not slow, in ns."""
        return self._occasions.slow_after

    def usual(self, steps: int, whole: int, hooks: int) -> None:
        """So many training steps have ended as usual.

        All of them took ``whole`` ns, and the agent ``hooks`` of that.
        """
        self._counted += steps
        self._budget.add_hooks(hooks)
        self._occasions.step(whole // steps)

    def is_due(self, next_step: int) -> bool:
        """Whether to prepare a window, which opens at the step after the next, or at the next."""
        if self._wanted is None:
            self._wanted = self._occasions.next(self._now, next_step, self._price)
        is_wanted = self._wanted is not None
        lead = self._lead(next_step) if is_wanted else 0
        return self._together.is_due(self._counted, is_wanted, lead)

    def begin(self) -> None:
        """A window is prepared."""
        self.reason = self._wanted or JOINT
        self._wanted = None
        self._budget.begin_window()

    def may_start(self, next_step: int, was_prepared: bool) -> bool:
        """Whether the prepared window opens now.

        ``was_prepared`` tells whether that was at the last step. Another attempt does not wait for
        that: it needs every step there is.
        """
        at_once = was_prepared or self._attempts > 0
        if self.reason == CHOSEN:
            at_once = not self._until_chosen(next_step)
        return self._together.may_start(self._counted, at_once)

    def start(self) -> int:
        """The prepared window opens; for how many steps."""
        steps = self._length()
        self.calls.open(steps, is_limited=self.reason not in (ASKED, CHOSEN))
        return steps

    @property
    def is_postponed(self) -> bool:
        """Whether the first window is due, and would cost too much by now."""
        return self._occasions.is_postponed

    def pay(self, waited: int) -> None:
        """The training has waited so many ns for a window."""
        self._waited += waited
        self._budget.wait(waited)
        self._together.pay(self._budget)

    def saved(self, steps: int, stall: int) -> None:
        """A window of ``steps`` has been saved; it made the training wait ``stall`` ns in all."""
        is_first = not self._last_steps
        self._attempts = 0
        self._last_steps = steps
        self._stall_per_step = stall // steps
        is_too_short = is_first and self._length() >= MUCH_LONGER * steps
        self._occasions.ended(self._now, is_too_short)

    def cut_short(self) -> bool:
        """A window has ended before a step was whole; whether there will be another attempt."""
        self._attempts += 1
        if self._attempts < MOST_ATTEMPTS:
            self._wanted = self.reason
            return True
        self.give_up()
        return False

    def give_up(self, *, is_too_short: bool = False) -> None:
        """There will be no window of this occasion; another as soon as the budget allows it, if
        one that was ended ``is_too_short``."""
        self._attempts = 0
        self._wanted = None
        self._occasions.ended(self._now, is_too_short)

    def _length(self) -> int:
        return self._options.window_steps or window_steps(
            self._occasions.typical, self._stall_per_step, self._options.in_detail
        )

    def _only_evaluates(self) -> bool:
        self._evaluated += not self._has_trained
        return not self._has_trained and self._evaluated > LONG_EVALUATION

    def _begin_training(self) -> None:
        """Forget how long the steps before took: a check before training says nothing of it."""
        self._has_trained = True
        if self._counted:
            # Ranks count alike from here on, though one alone may have done that check.
            self._counted = 0
            self._occasions.begin_anew()

    def _price(self) -> int:
        """What the next window will cost, if its steps cost as much as those of the last one."""
        self._together.learn(self._budget)
        if not self._last_steps:
            if self._options.window_steps:
                # Asked for, like those of a viewer.
                return self._budget.last_window
            return max(self._budget.last_window, self.calls.price(self._length()))
        return self._budget.last_window * self._length() // self._last_steps

    def _lead(self, next_step: int) -> int:
        if self._wanted == CHOSEN:
            return self._until_chosen(next_step)
        return usual_lead(self._occasions.typical)

    def _until_chosen(self, next_step: int) -> int:
        return max((self._options.first_step or 0) - next_step, 0)
