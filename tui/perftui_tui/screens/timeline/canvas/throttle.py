"""At most so many pictures a second, and never a stale last one."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class Throttle:
    """Runs ``work`` at once, then at most every ``interval`` seconds while requests keep coming.

    The last request is always answered: forty keys that arrive in one read cost two rebuilds, not
    forty. ``later`` runs a callback after so many seconds on the same thread (``set_timer``).
    """

    def __init__(
        self,
        work: Callable[[], None],
        later: Callable[[float, Callable[[], None]], object],
        interval: float = 1 / 30,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._work, self._later, self._clock = work, later, clock
        self._interval = interval
        self._earliest = float("-inf")
        self._waiting = False

    def request(self) -> None:
        """Ask for the work to be done soon."""
        if self._waiting:
            return
        wait = self._earliest - self._clock()
        if wait <= 0:
            self._run()
        else:
            self._waiting = True
            self._later(wait, self._run)

    def _run(self) -> None:
        self._waiting = False
        self._work()
        self._earliest = self._clock() + self._interval
