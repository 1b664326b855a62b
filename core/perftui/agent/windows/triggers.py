"""x"""

from __future__ import annotations

from collections import deque


class Budget:
    """All own cost of one training process, against ``share`` of the time it has run.

    Counts what hooks took, what windows made the training wait, and by how much profiled steps
    were longer than usual. Times are of any one clock in ns. Asking first and paying the price
    that was asked for, nobody spends more than the share.
    """

    def __init__(self, share: float) -> None:
        self._waited = 0
        """What the training has waited for windows, here or on another rank."""
        self._slowed = 0
        """By how much profiled steps were longer than usual in all, or shorter."""
        self._before = (0, 0)
        """Both, when the last window was prepared."""
        self._share = share
        self._began: int | None = None
        self._hooks = 0

    @property
    def windows(self) -> int:
        """Cost of all windows so far."""
        return self._waited + max(self._slowed, 0)

    @property
    def last_window(self) -> int:
        """Cost of the last window, or of the open one so far."""
        waited, slowed = self._before
        return self._waited - waited + max(self._slowed - slowed, 0)

    @property
    def spent(self) -> int:
        """Everything so far."""
        return self._hooks + self.windows

    def age(self, now: int) -> int:
        """Time since the first step began; 0 before one has ended."""
        return now - self._began if self._began is not None else 0

    def step(self, end: int, duration: int, hooks: int) -> None:
        """A step of ``duration`` has ended at ``end``; ``hooks`` is what the agent took of it."""
        if self._began is None:
            self._began = end - duration
        self._hooks += hooks

    def add_hooks(self, hooks: int) -> None:
        """The agent took so much of steps that were not passed to ``step``."""
        self._hooks += hooks

    def begin_window(self) -> None:
        """A window is prepared."""
        self._before = self._waited, self._slowed

    def wait(self, cost: int) -> None:
        """The training has waited so long for the last window."""
        self._waited += cost

    def slow(self, difference: int) -> None:
        """A profiled step was so much longer than usual, or shorter where that is negative.

        Steps scatter: with the longer ones counted alone, windows of 30 ms on a busy machine seemed
        to take seconds, and hardly any were opened.
        """
        self._slowed += difference

    def raise_to(self, windows: int) -> None:
        """Windows cost another rank ``windows``, and who waits for it waits as long."""
        self._waited += max(windows - self.windows, 0)

    def allows(self, now: int, cost: int) -> bool:
        """Whether all would still be within the share if the next window cost ``cost``."""
        return self.spent + cost <= self._share * self.age(now)


REMEMBERED = 32
RENEWED = 16
"""The middle of the last steps is looked up anew every so many: sorting them takes 2 us."""

SLOW_RATIO = 2
SLOW_EXTRA_NS = 20_000_000
"""A slow step takes twice the usual time and some time slices of the system longer: on a busy
machine any step may lose 3 to 20 ms to other programs."""

NEVER = 1 << 62
"""Longer than any step, in ns."""


class UsualStep:
    """The usual length of a step in ns, learned from all that no window disturbed."""

    def __init__(self) -> None:
        self.duration = 0
        """The usual one; 0 while too few steps are known."""
        self._recent: deque[int] = deque(maxlen=REMEMBERED)
        self._until_renewed = RENEWED

    @property
    def slow_after(self) -> int:
        """A step that takes longer is slow beside the steps before it, if any are known."""
        return max(self.duration * SLOW_RATIO, self.duration + SLOW_EXTRA_NS)

    def step(self, duration: int) -> bool:
        """A step has taken ``duration``; whether that is slow beside the steps before it."""
        is_slow = self.duration > 0 and duration > self.slow_after
        self._recent.append(duration)
        self._until_renewed -= 1
        if not self._until_renewed:
            self._until_renewed = RENEWED
            self.duration = sorted(self._recent)[len(self._recent) // 2]
        return is_slow


SETTLED_STEPS = 3
SETTLED_RATIO = 1.5
"""Three steps in a row that differ by less than half are taken for steady: in the loops measured,
compilation, autotuning, the first epoch's workers and lazy allocation make steps 3 to 1000 times
longer, and noise on a busy machine moves them by a third."""

LEAST_STEPS = 10
LEAST_NS = 1_000_000_000
"""Before both, clocks and caches are still changing; reaching either is enough."""

MOST_STEPS = 50
MOST_NS = 30_000_000_000
"""A loop that never settles (a starved loader is one) is looked at all the same after this."""


class WarmUp:
    """Hears of every training step; ``is_over`` once the times have settled."""

    def __init__(self) -> None:
        self.is_over = False
        self._steps = 0
        self._elapsed = 0
        self._recent: deque[int] = deque(maxlen=SETTLED_STEPS)

    def step(self, duration: int) -> None:
        """A training step has taken ``duration`` ns."""
        self._steps += 1
        self._elapsed += duration
        self._recent.append(duration)
        self.is_over = self.is_over or self._has_settled() or self._has_lasted()

    @property
    def typical(self) -> int:
        """The middle one of the last three durations in ns, 0 before the first."""
        return sorted(self._recent)[len(self._recent) // 2] if self._recent else 0

    def _has_settled(self) -> bool:
        enough = self._steps >= LEAST_STEPS or self._elapsed >= LEAST_NS
        if not enough or len(self._recent) < SETTLED_STEPS:
            return False
        return max(self._recent) <= SETTLED_RATIO * min(self._recent)

    def _has_lasted(self) -> bool:
        return self._steps >= MOST_STEPS or self._elapsed >= MOST_NS
