"""How often something is read that costs too much to be read all the time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Pace:
    """Readings at least ``every`` seconds apart that take at most ``share`` of a core on average.

    One that costs more than its share is followed by a longer pause. ``ahead`` seconds of that
    pause may be left for later, so that a costly reading now and then delays none after it.
    """

    def __init__(self, every: float, share: float, ahead: float = 0.0) -> None:
        self._every = every
        self._share = share
        self._ahead = ahead
        self._paid = self._due = float("-inf")

    def is_due(self, now: float) -> bool:
        """Whether it is time for a reading at ``now``, seconds on the monotonic clock."""
        return now >= self._due

    def spent(self, now: float, cost: float) -> None:
        """A reading begun at ``now`` took ``cost`` seconds of a core."""
        self._paid = max(self._paid, now) + cost / self._share
        self._due = max(now + self._every, self._paid - self._ahead)

    @contextmanager
    def reading(self, now: float) -> Iterator[None]:
        """The body is a reading, begun at ``now``: its cost is what this thread computes in it."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.spent(now, time.thread_time() - began)
