"""What the agent has cost the training so far, and whether another window would be too much."""

from __future__ import annotations


class Budget:
    """All own cost of one training process, against ``share`` of the time it has run.

    Counts what hooks took, what windows made the training wait, and by how much profiled steps
    were longer than usual. Times are of any one clock in ns. Asking first and paying the price
    that was asked for, nobody spends more than the share.
    """

    def __init__(self, share: float) -> None:
        self.windows = 0
        """Cost of all windows so far."""
        self.last_window = 0
        """Cost of the last window, or of the open one so far."""
        self._share = share
        self._began: int | None = None
        self._hooks = 0

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

    def begin_window(self) -> None:
        """A window is prepared."""
        self.last_window = 0

    def spend(self, cost: int) -> None:
        """The last window has taken this much more of the training."""
        self.windows += max(cost, 0)
        self.last_window += max(cost, 0)

    def raise_to(self, windows: int) -> None:
        """Windows cost another rank ``windows``, and who waits for it waits as long."""
        self.windows = max(self.windows, windows)

    def allows(self, now: int, cost: int) -> bool:
        """Whether all would still be within the share if the next window cost ``cost``."""
        return self.spent + cost <= self._share * self.age(now)
