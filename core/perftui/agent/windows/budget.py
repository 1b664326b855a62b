"""The cost that windows may have, and reasons to open one: warm, slow steps, time, a viewer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ...wire.control_page import ControlPage


class Budget:
    """All costs of the agent in one training process, against ``share`` of the time it has run.

    Counts the time of hooks, the waits for windows, and by how much profiled steps were longer than
    usual. Times are of any one clock in ns. Whoever asks first and then pays the price asked for
    never exceeds the share.
    """

    def __init__(self, share: float) -> None:
        self.hooks = 0
        """Time of the agent's hooks in steps."""
        self.waited = 0
        """Time that the training has waited for windows, here or on another rank."""
        self.slowed = 0
        """By how much profiled steps were longer than usual in all, or shorter.

        Steps scatter: with the longer ones counted alone, windows of 30 ms on a busy machine seemed
        to take seconds, and hardly any were opened."""
        self._before = (0, 0)
        """Waits and slowdown in all when the last window was prepared."""
        self._share = share
        self._began: int | None = None

    @property
    def windows(self) -> int:
        """Cost of all windows so far."""
        return self.waited + max(self.slowed, 0)

    @property
    def last_window(self) -> int:
        """Cost of the last window, or of the open one so far."""
        waited, slowed = self._before
        return self.waited - waited + max(self.slowed - slowed, 0)

    @property
    def spent(self) -> int:
        """Cost of everything so far."""
        return self.hooks + self.windows

    def age(self, now: int) -> int:
        """Time since the first step began; 0 before one has ended."""
        return now - self._began if self._began is not None else 0

    def step(self, end: int, duration: int, hooks: int) -> None:
        """A step of ``duration`` has ended at ``end``; the agent took ``hooks`` of it."""
        if self._began is None:
            self._began = end - duration
        self.hooks += hooks

    def begin_window(self) -> None:
        """A window is prepared."""
        self._before = self.waited, self.slowed

    def raise_to(self, windows: int) -> None:
        """Windows cost another rank ``windows``, and ranks that wait for it wait as long."""
        self.waited += max(windows - self.windows, 0)

    def allows(self, now: int, cost: int) -> bool:
        """Whether the total stays within the share if the next window costs ``cost``."""
        return self.spent + cost <= self._share * self.age(now)


REMEMBERED = 32
RENEWED = 16
"""The median of the last steps is computed anew every so many steps: sorting takes 2 us."""

SLOW_RATIO = 2
SLOW_EXTRA_NS = 20_000_000
"""A slow step takes twice the usual time and some time slices of the system longer: on a busy
machine any step may lose 3 to 20 ms to other programs."""

NEVER = 1 << 62
"""Longer than any step, in ns."""


SETTLED_STEPS = 3
SETTLED_RATIO = 1.5
"""Three steps in a row that differ by less than half are taken for steady: in the loops measured,
compilation, autotuning, the first epoch's workers and lazy allocation make steps 3 to 1000 times
longer, and noise on a busy machine moves them by a third."""

LEAST_STEPS = 10
LEAST_NS = 1_000_000_000
"""Before both, clocks and caches still change; reaching either is enough."""

MOST_STEPS = 50
MOST_NS = 30_000_000_000
"""A loop that never settles (a starved loader is one) is profiled anyway after this."""


class StepTimes:
    """How long training steps without a window take in ns: whether that has settled, and the usual
    length since then."""

    def __init__(self) -> None:
        self.have_settled = False
        self._steps = 0
        self._elapsed = 0
        self._first: deque[int] = deque(maxlen=SETTLED_STEPS)
        """The newest steps until the times have settled."""
        self._recent: deque[int] = deque(maxlen=REMEMBERED)
        """The newest steps since then."""
        self._usual = 0
        """The usual duration; 0 while too few steps are known."""
        self._until_renewed = RENEWED

    @property
    def typical(self) -> int:
        """Typical length of a step; 0 before the first."""
        return self._usual or (sorted(self._first)[len(self._first) // 2] if self._first else 0)

    @property
    def slow_after(self) -> int:
        """Duration beyond which a step is slow, compared to the steps before it."""
        return max(self._usual * SLOW_RATIO, self._usual + SLOW_EXTRA_NS)

    def step(self, duration: int) -> bool:
        """A step has taken ``duration``; whether that is slow, once the times have settled."""
        if not self.have_settled:
            self._settle(duration)
            return False
        is_slow = self._usual > 0 and duration > self.slow_after
        self._recent.append(duration)
        self._until_renewed -= 1
        if not self._until_renewed:
            self._until_renewed = RENEWED
            self._usual = sorted(self._recent)[len(self._recent) // 2]
        return is_slow

    def _settle(self, duration: int) -> None:
        self._steps += 1
        self._elapsed += duration
        self._first.append(duration)
        is_alike = max(self._first) <= SETTLED_RATIO * min(self._first)
        is_warm = self._steps >= LEAST_STEPS or self._elapsed >= LEAST_NS
        has_lasted = self._steps >= MOST_STEPS or self._elapsed >= MOST_NS
        is_steady = len(self._first) == SETTLED_STEPS and is_alike and is_warm
        self.have_settled = is_steady or has_lasted


WARM, REGULAR, SLOW = "warm", "regular", "slow"
ASKED, CHOSEN, JOINT, LACKING = "asked", "chosen", "joint", "lacking"
"""Reasons to open a window: the training has warmed up, the next is due, a step was slow, a viewer
has asked, its step was named before the run, another rank opens one, the diagnosis lacks something
that no window has recorded."""

LEAST_PAUSE_NS = 20_000_000_000
MOST_PAUSE_NS = 1_800_000_000_000
PAUSE_OF_AGE = 5
"""Between two regular windows lies a fifth of the time since the training began, 20 s to half an
hour: dozens in the first hours, where people look, and some hundred MB in a week."""

CREDIT_NS = 150_000_000
"""What the first window may cost before that is earned: the longest that any window may hold up a
training. Steps of hundreds of forward passes, as in text generation, would cost seconds."""

SLOW_PAUSE = 4
"""After a slow step a quarter of the pause is enough."""


class WindowTriggers:
    """Asks for a window once the training is warm, then as often as ``budget`` allows.

    The first one is opened on credit, unless it is expected to be expensive; so are those that a
    viewer asks for. The pause to the next is longer accordingly. With ``first_step`` there is one
    window, from that step on.
    """

    def __init__(self, budget: Budget, control: ControlPage, first_step: int | None) -> None:
        self._budget = budget
        self._control = control
        self._first_step = first_step
        self.times = StepTimes()
        self._is_first = True
        self.is_postponed = False
        """Whether the first window was too expensive so far."""
        self.details = 0
        """What the last window recorded besides what the options say."""
        self._was_slow = False
        self._regular_at = 0
        self._slow_at = 0

    @property
    def lacking(self) -> bool:
        """Whether viewers have asked for what no window has recorded."""
        return self._control.details != self.details

    def prepared(self) -> None:
        """A window is prepared: it records what was asked for so far."""
        self.details = self._control.details

    @property
    def is_settled(self) -> bool:
        """Whether only time, a slow step or a viewer triggers another window."""
        has_begun = self.is_postponed or not self._is_first
        return self.times.have_settled and has_begun and self._first_step is None

    def begin_anew(self) -> None:
        """Steps of another kind begin: they have their own warm-up and first window.

        Credit used by the steps before must not cost the training its first window: a loop of very
        many calls uses up the budget with their hooks, and earns none.
        """
        self.times = StepTimes()
        self._was_slow = False
        self._is_first |= self._first_step is None
        self.is_postponed = False

    def step(self, duration: int) -> None:
        """A step has taken ``duration`` ns, undisturbed by any window."""
        self._was_slow = self.times.step(duration)

    def ended(self, now: int, is_too_short: bool) -> None:
        """A window has ended. If it is too short, the next follows as soon as the budget allows."""
        self._is_first = self.is_postponed = False
        pause = min(max(self._budget.age(now) // PAUSE_OF_AGE, LEAST_PAUSE_NS), MOST_PAUSE_NS)
        self._regular_at = now if is_too_short else now + pause
        self._slow_at = min(self._regular_at, now + pause // SLOW_PAUSE)

    def next(self, now: int, next_step: int, price: Callable[[], int]) -> str | None:
        """Why to open a window after step ``next_step``; None for no window.

        ``price`` returns the expected cost, ns.
        """
        was_slow, self._was_slow = self._was_slow, False
        if self._control.requested():
            return ASKED
        if self._first_step is not None:
            if not self._is_first or next_step + 1 < self._first_step:
                return None
            self._is_first = False
            return CHOSEN
        if not self.times.have_settled:
            return None
        if self._is_first:
            cost = price()
            self.is_postponed = cost > CREDIT_NS and not self._budget.allows(now, cost)
            self._is_first = self.is_postponed
            return None if self.is_postponed else WARM
        # What is asked for does not wait for its turn, only for what it costs.
        lacking = self.lacking
        if not lacking and now < (self._slow_at if was_slow else self._regular_at):
            return None
        if not self._budget.allows(now, price()):
            return None
        return LACKING if lacking else SLOW if was_slow else REGULAR
