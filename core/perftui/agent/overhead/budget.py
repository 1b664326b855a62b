"""What the agent has cost the training so far, and whether another window would be too much."""

from __future__ import annotations


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
