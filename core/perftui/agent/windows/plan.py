"""When windows open on all ranks, how many steps they have, and what they cost."""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path

from ...wire.control_page import ControlPage
from ...wire.spool import AgentOptions, Spool
from ..recording.steps import EVAL, TRAIN, Boundary
from ..startup.process import ranks
from .budget import ASKED, CHOSEN, CREDIT_NS, JOINT, Budget, WindowTriggers

LEAST_LEAD = 2
MOST_LEAD = 8
LEAD_NS = 1_000_000_000
"""Time between plan and window: ranks that wait for each other are a step or two apart, more where
steps are short and only queued on a GPU. Long steps are not counted by the dozen."""


class RankSync:
    """Plans windows so that all ranks of a host open theirs at the same step.

    Where one rank is held up by its window, the others wait for it in their next all-reduce, and
    would record that wait. So a rank that wants a window plans it some steps ahead on the shared
    page, and all ranks open one then. Steps of training are counted, where there are any: some
    ranks may evaluate more steps than others. A process that trains alone never waits for a plan.
    """

    def __init__(self, control: ControlPage) -> None:
        self._control = control
        self._seen = control.step
        self._cost_before = control.cost
        """Cost of windows in processes before this one: torchrun restarts ranks."""
        self.is_one_of_many = False
        """Whether other ranks open their windows at the same steps."""

    def is_due(self, trained: int, is_wanted: bool, lead: int) -> bool:
        """Whether to prepare a window after ``trained`` steps.

        One that ``is_wanted`` is planned ``lead`` steps ahead.
        """
        step = self._control.step
        if is_wanted or step != self._seen:
            # The process group may have been created after the recording began.
            self._seen = step
            self.is_one_of_many = self._control.numbers is not None and ranks()["world_size"] > 1
        if not self.is_one_of_many:
            return is_wanted
        if is_wanted and not trained <= step <= trained + MOST_LEAD:
            # The plan is over, or was for ranks that have been restarted since.
            step = trained + lead
            self._control.step = step
        return trained <= step <= trained + 1

    def can_wait(self, trained: int) -> bool:
        """Whether no window is known to be planned for a step after ``trained``."""
        return not self.is_one_of_many or self._seen < trained

    @property
    def plan(self) -> tuple[int, int]:
        """Address of the plan in memory, 0 for none, and the plan last seen."""
        return self._control.step_address, self._seen

    def may_start(self, trained: int, at_once: bool) -> bool:
        """Whether the prepared window opens now; ``at_once`` if it need not wait for others."""
        if self.is_one_of_many:
            return trained >= self._control.step
        return at_once

    def pay(self, budget: Budget) -> None:
        """Report the cost of windows here to the other ranks."""
        if self.is_one_of_many:
            cost = self._cost_before + budget.windows
            if cost > self._control.cost:
                self._control.cost = cost

    def learn(self, budget: Budget) -> None:
        """Raise the cost of windows to that of the most expensive rank: all have waited for it."""
        if self.is_one_of_many:
            budget.raise_to(self._control.cost - self._cost_before)


def usual_lead(typical: int) -> int:
    """How many steps of ``typical`` ns ahead to plan a window, so that all ranks see the plan."""
    steps = LEAD_NS // typical if typical else MOST_LEAD
    return max(LEAST_LEAD, min(steps, MOST_LEAD))


REMEMBERED_RUNS = 4
"""Runs and gaps to remember. Most loops have one or two lengths of each: steps between two
validations, and the rest at the end of an epoch."""

LEAST_GAPS = 2
"""Number of gaps of equal length after which the next is expected to be as long."""

LONG_GAP = 1000
MUCH_LONGER_GAP = 4
"""Least steps of a gap, and times the longest gap before, after which training seems to be over.
Rollouts of 2,048 calls between two updates are common, and texts of as many tokens."""

MANY = 1 << 62
"""More steps than any training has."""


class TrainingRuns:
    """Runs of training steps and the gaps between them, notified of every step from the first
    training step on.

    A run is expected to end where one of the last runs did, and to go on once it is longer than all
    of them. The end of a gap is known where a call with gradients marks it; without such a call the
    last time, it is expected once the gap is as long as all of the last ones.
    """

    def __init__(self) -> None:
        self.gaps = 0
        """Gaps between runs that have begun."""
        self.is_foreseen = False
        """Whether the start of the last run was known right before its first step."""
        self._runs: deque[int] = deque(maxlen=REMEMBERED_RUNS)
        self._gaps: deque[int] = deque(maxlen=REMEMBERED_RUNS)
        self._run = 0
        self._gap = 0
        self._trains_next = self._is_announced = False

    def step(self, ended: Boundary) -> None:
        """A step has ended."""
        if ended.kind == TRAIN:
            if self._gap:
                self.is_foreseen, self._is_announced = self.ahead > 0, self._trains_next
                self._gaps.append(self._gap)
                self._gap = 0
            self._run += 1
        else:
            if self._run:
                self._runs.append(self._run)
                self._run = 0
                self.gaps += 1
            self._gap += 1
        self._trains_next = ended.trains_next

    def usual(self, steps: int) -> None:
        """``steps`` more training steps have ended, after one of them."""
        self._run += steps

    @property
    def ahead(self) -> int:
        """Training steps expected to follow without a gap; ``MANY`` before the first."""
        if self._gap:
            as_ever = len(self._gaps) >= LEAST_GAPS and set(self._gaps) == {self._gap}
            is_over = self._trains_next or (not self._is_announced and as_ever)
            return self.shortest if is_over else 0
        ends = [run for run in self._runs if run >= self._run]
        if not ends:
            return MANY
        return min(ends) - self._run or int(self._trains_next)

    @property
    def shortest(self) -> int:
        """Steps of the shortest of the last runs."""
        return min(self._runs, default=MANY)

    @property
    def seem_over(self) -> bool:
        """Whether the current gap in training is much longer than any before."""
        return self._gap > max(LONG_GAP, MUCH_LONGER_GAP * max(self._gaps, default=0))


USUAL_STEPS = 2
SHORT_STEP_NS = 5_000_000
SHORT_WINDOW_NS = 20_000_000
MOST_STEPS = 10
"""Steps under 5 ms are so short that two of them show mostly noise."""

MOST_STALL_NS = 50_000_000
"""Longest time that the end of a window should hold up the training."""

WORST_RATE = 6
WORST_RATE_IN_DETAIL = 20
"""Stall for each nanosecond recorded, where a loop does nothing but call small operators: 1.1
events a microsecond, each 5 us to end and save, three times that with Python stacks, twice with
shapes. Until a window has been measured every loop may be one of these."""


DETAIL_RATIO = 2
"""By how much a window costs more, at most, than one that recorded less."""


def window_steps(step_ns: int, stall_per_step: int | None, in_detail: bool) -> int:
    """Steps for the next window of a training whose steps take ``step_ns``; 1 at least.

    ``stall_per_step`` is how long the last window held up the training, per step; None before there
    was one. ``in_detail``: shapes, stacks or memory are recorded too.
    """
    steps = USUAL_STEPS
    if 0 < step_ns < SHORT_STEP_NS:
        steps = max(steps, min(MOST_STEPS, -(-SHORT_WINDOW_NS // step_ns)))
    if stall_per_step is None:
        stall_per_step = step_ns * (WORST_RATE_IN_DETAIL if in_detail else WORST_RATE)
    if stall_per_step > 0:
        steps = min(steps, MOST_STALL_NS // stall_per_step)
    return max(steps, 1)


CALL_NS = 100_000
"""Assumed cost of recording one module call before any window was measured: some 5,200 calls in the
modules of a small generating transformer took 790 ms, 20,000 linear layers 1.2 s."""

REMEMBERED = 16
"""Steps whose module calls are remembered. The window may meet any of them: where a training
generates text in between, one step in some calls a hundred times as many."""

MUCH_MORE = 2
"""A window may hold this many times the calls of the steps before it."""


class ModuleCalls:
    """Counts calls of modules while hooks go the slow path, as they do throughout a window.

    An outermost call counts one for every module inside.
    """

    def __init__(self) -> None:
        self._of_steps: deque[int] = deque([0], maxlen=REMEMBERED)
        self._in_step = 0
        self._outermost = 0
        self._per_call = 0.0
        """Modules per outermost call of the last step that had any."""
        self._in_window = 0
        self._most = sys.maxsize

    def count(self, modules: int) -> None:
        """A module with ``modules`` in it is about to be called."""
        self._in_step += modules
        self._outermost += 1
        self._in_window += modules

    def end_step(self, forwards: int, *, is_sought: bool) -> None:
        """A step with ``forwards`` outermost calls has ended; ``is_sought`` if windows want it.

        Calls on the fast path are assumed to hold as many modules as others. A step whose end was
        found long afterwards is not remembered: calls of the next one were counted.
        """
        if self._outermost:
            self._per_call = self._in_step / self._outermost
        calls = round(forwards * self._per_call)
        if is_sought and calls and self._outermost <= forwards:
            self._of_steps.append(calls)
        self._in_step = self._outermost = 0

    def open(self, steps: int, *, is_limited: bool) -> None:
        """A window of ``steps`` opens, with any number of calls unless ``is_limited``."""
        expected = steps * max(self._of_steps)
        self._in_window = 0
        self._most = max(MUCH_MORE * expected, CREDIT_NS // CALL_NS) if is_limited else sys.maxsize

    @property
    def are_too_many(self) -> bool:
        """Whether the open window should end, whole or not."""
        return self._in_window > self._most

    def price(self, steps: int) -> int:
        """Expected cost of a window of ``steps``, ns."""
        return steps * max(self._of_steps) * CALL_NS


MOST_ATTEMPTS = 3
"""Windows in a row that are ended from outside before a step is whole: a training that forks its
workers anew after every batch would start and stop the profiler for ever and never have one."""

MUCH_LONGER = 2
"""A first window is followed by another as soon as possible if that has so many times the steps."""

LONG_EVALUATION = 1000
"""Steps of evaluation before any training after which a script with an optimizer is believed to do
nothing else. A check before the training is shorter, and whatever is recorded of it delays the
first window of the training, which pays for it. Counted, not timed, so that ranks agree."""

MOST_GAPS = 2
"""Gaps that a window waits for, until the script trains again. If there never is room then, as
where single training steps come without warning, it takes any steps."""

MOST_WAIT_NS = 30_000_000_000
"""Longest wait for training steps if a viewer asks for a window: someone sits at the screen."""


class WindowPlan:
    """Watches every step and the fate of windows; opens none and reads no clock."""

    def __init__(self, spool: Path, options: AgentOptions) -> None:
        self.reason = ""
        """Why the last window was opened."""
        self.calls = ModuleCalls()
        self._options = options
        self._control = ControlPage(Spool(spool).control)
        self._budget = Budget(options.overhead)
        self.triggers = WindowTriggers(self._budget, self._control, options.first_step)
        self.rank_sync = RankSync(self._control)
        self._now = 0
        """When the last step ended."""
        self._has_trained = False
        self._evaluated = 0
        self._counted = 0
        """Steps of training; before the first of them, steps of any kind."""
        self._runs = TrainingRuns()
        self._wanted_for: str | None = None
        self._wanted_at = 0
        self._wanted_after = 0
        """When the window was requested, and after how many gaps between training steps."""
        self._prepared = 0
        """Number of times that a window was prepared."""
        self._room = 0
        """Training steps that were expected when the last window opened; before any, no bound."""
        self._lacks_training = False
        """Whether the last window was to hold training steps, and has none so far."""
        self._attempts = 0
        self._waited = 0
        """Time that the training has waited for windows in the current step."""
        self._last_steps = 0
        """Steps of the last window, 0 before the first of its kind."""
        self._stall_per_step: int | None = None
        self._measured = 0
        """What that window recorded besides what the options say."""

    def step(self, ended: Boundary, duration: int, hooks: int, is_open: bool) -> None:
        """A step has ended after ``duration`` ns, of which the agent took ``hooks``.

        ``is_open``: a window was open, which makes the step longer. A script that only infers is
        treated like one that trains, and one that only evaluates after a while; after the first
        training step, evaluation no longer counts.
        """
        waited, self._waited = self._waited, 0
        undisturbed = max(duration - waited, 0)
        self._now = ended.end
        self._budget.step(ended.end, duration, hooks)
        if ended.kind == TRAIN:
            self._lacks_training = False
            if not self._has_trained:
                self._begin_training()
        if self._has_trained:
            self._runs.step(ended)
        # Steps of evaluation before the first of training.
        self._evaluated += ended.kind == EVAL and not self._has_trained
        only_evaluates = not self._has_trained and self._evaluated > LONG_EVALUATION
        is_sought = ended.kind != EVAL or only_evaluates
        self.calls.end_step(ended.forwards, is_sought=is_sought)
        if not is_sought:
            return
        self._counted += 1
        if not is_open:
            self.triggers.step(undisturbed)
        elif self.triggers.times.typical:
            self._budget.slowed += undisturbed - self.triggers.times.typical

    @property
    def can_wait(self) -> bool:
        """Whether usual steps may be passed to ``usual`` instead, a while later."""
        is_idle = self._wanted_for is None and not self._attempts and not self._waited
        return is_idle and self.triggers.is_settled and self.rank_sync.can_wait(self._counted)

    def usual(self, steps: int, whole: int, hooks: int) -> None:
        """``steps`` training steps have ended as usual.

        Together they took ``whole`` ns, of which the agent took ``hooks``.
        """
        self._counted += steps
        self._runs.usual(steps)
        self._budget.hooks += hooks
        self.triggers.step(whole // steps)

    def is_due(self, next_step: int) -> bool:
        """Whether to prepare a window, which opens at the step after the next, or at the next."""
        if self._wanted_for is None:
            self._wanted_for = self.triggers.next(self._now, next_step, self._price)
            self._wanted_at, self._wanted_after = self._now, self._runs.gaps
        elif self._wanted_for != CHOSEN and self._control.requested():
            self._wanted_for, self._wanted_at = ASKED, self._now
        is_wanted, lead = self._wanted_for is not None, 0
        if self._wanted_for == CHOSEN:
            lead = self._until_chosen(next_step)
        elif is_wanted:
            lead = usual_lead(self.triggers.times.typical)
        if not self.rank_sync.is_due(self._counted, is_wanted, lead):
            return False
        # The first window starts the tracing library, which any step may record.
        return not self._prepared or self._has_room(self._wanted_for or JOINT)

    def begin(self) -> None:
        """A window is prepared."""
        self.reason = self._wanted_for or JOINT
        self._wanted_for = None
        self._prepared += 1
        self._budget.begin_window()
        self.triggers.prepared()

    def may_start(self, next_step: int, was_prepared: bool) -> bool:
        """Whether the prepared window opens now.

        ``was_prepared``: it was prepared at the last step. Another attempt does not wait for that:
        it needs every step there is. Nor does a window that would then miss a step, once the
        tracing library has been started.
        """
        is_tight = self._prepared > 1 and 0 < self._runs.ahead <= self._length()
        at_once = was_prepared or self._attempts > 0 or is_tight
        if self.reason == CHOSEN:
            at_once = not self._until_chosen(next_step)
        return self._has_room(self.reason) and self.rank_sync.may_start(self._counted, at_once)

    @property
    def may_stay(self) -> bool:
        """Whether a prepared window that may not start stays prepared until the next step.

        With a GPU it takes memory for every kernel meanwhile; without one it costs nothing.
        """
        return self._has_room(self.reason)

    def put_back(self) -> None:
        """Drop the prepared window; it is prepared again when it is due."""
        if self.reason != JOINT:
            self._wanted_for = self.reason

    def start(self) -> int:
        """The prepared window opens; returns its number of steps."""
        steps, self._room = self._length(), self._runs.ahead
        is_expected = self._room > 0 and self.reason != CHOSEN
        self._lacks_training = self._has_trained and is_expected
        if is_expected and self._options.window_steps is None:
            steps = min(steps, self._room)
        self.calls.open(steps, is_limited=self.reason not in (ASKED, CHOSEN))
        return steps

    def pay(self, waited: int) -> None:
        """The training has waited ``waited`` ns for a window."""
        self._waited += waited
        self._budget.waited += waited
        self.rank_sync.pay(self._budget)

    def saved(self, steps: int, stall: int) -> None:
        """A window of ``steps`` has been saved; it held up the training for ``stall`` ns in all."""
        is_first = not self._last_steps
        self._attempts = 0
        self._last_steps = steps
        self._stall_per_step = stall // steps
        self._measured = self.triggers.details
        is_too_short = is_first and min(self._length(), self._room) >= MUCH_LONGER * steps
        self.triggers.ended(self._now, is_too_short or self._lacks_training)

    def cut_short(self) -> bool:
        """A window has ended before a step was whole; returns whether to try again."""
        self._attempts += 1
        if self._attempts < MOST_ATTEMPTS:
            self._wanted_for = self.reason
            return True
        self.give_up()
        return False

    def give_up(self, *, is_too_short: bool = False) -> None:
        """Open no window for this trigger; the next as soon as the budget allows, if the last
        window was ``is_too_short``."""
        self._attempts = 0
        self._wanted_for = None
        self.triggers.ended(self._now, is_too_short)

    def _length(self) -> int:
        stall, lacking = self._stall_per_step, self.triggers.lacking
        in_detail = self._options.in_detail or self.triggers.details > 0 or lacking
        return self._options.window_steps or window_steps(
            self.triggers.times.typical, stall and stall * self._times_dearer, in_detail
        )

    @property
    def _times_dearer(self) -> int:
        """By how much the next window may cost more than the last one, which recorded less."""
        is_new = self.triggers.lacking or self.triggers.details != self._measured
        return DETAIL_RATIO if is_new else 1

    def _fitting(self) -> int:
        """Steps of the next window: at most one run, unless their number was requested."""
        if self._options.window_steps is not None:
            return self._options.window_steps
        return min(self._length(), self._runs.shortest)

    def _has_room(self, reason: str) -> bool:
        """Whether the steps that begin are suitable for a window with ``reason``.

        These are training steps once there was one. A viewer is content with one of them. Ranks
        open theirs where it is planned; they wait for the end of a gap if that can be foreseen.
        """
        if not self._has_trained or reason == CHOSEN:
            return True
        ahead = self._runs.ahead
        if self.rank_sync.is_one_of_many:
            has_come = self.rank_sync.may_start(self._counted, at_once=False)
            return not self._runs.is_foreseen or ahead > (0 if has_come else 1)
        if ahead >= (1 if reason == ASKED else min(self._length(), self._runs.shortest)):
            return True
        if reason == ASKED and self._now - self._wanted_at > MOST_WAIT_NS:
            return True
        return self._runs.seem_over or self._runs.gaps - self._wanted_after >= MOST_GAPS

    def _begin_training(self) -> None:
        """Forget the steps before: a check before training says nothing about it."""
        self._has_trained = True
        if self._counted:
            # From here on ranks count alike, even if only one of them did that check.
            self._counted = self._last_steps = 0
            self._stall_per_step = None
            self.triggers.begin_anew()

    def _price(self) -> int:
        """Expected cost of the next window, if its steps cost as much as the last one's."""
        self.rank_sync.learn(self._budget)
        if not self._last_steps:
            if self._options.window_steps:
                # Requested, like those of a viewer.
                return self._budget.last_window
            return max(self._budget.last_window, self.calls.price(self._fitting()))
        last = self._budget.last_window * self._times_dearer
        return last * self._fitting() // self._last_steps

    def _until_chosen(self, next_step: int) -> int:
        return max((self._options.first_step or 0) - next_step, 0)
