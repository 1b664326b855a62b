"""How long a step usually takes, and which are much slower."""

from __future__ import annotations

from collections import deque

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
    """Told of every training step that no window disturbed, in ns."""

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
