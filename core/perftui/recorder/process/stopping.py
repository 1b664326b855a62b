"""Ends a training as gently as it allows: each step waits, then the next one follows."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from perftui.recorder.process.training import Training

INTERRUPT_GRACE = 30.0
"""Seconds after SIGINT: scripts that catch KeyboardInterrupt save a checkpoint first."""

TERMINATE_GRACE = 10.0
"""Seconds after SIGTERM, as container runtimes give."""


class Stopper:
    """SIGINT to the group, SIGTERM to the leader, SIGKILL to everything; ``clock`` in seconds."""

    def __init__(self, training: Training, clock: Callable[[], float] = time.monotonic) -> None:
        self._training = training
        self._clock = clock
        self._waits = [INTERRUPT_GRACE, TERMINATE_GRACE]
        self._level = 0
        self._next_at: float | None = None

    def ask(self, interrupt: float | None = None, terminate: float | None = None) -> None:
        """Begin to stop; while that is under way, go on to the next step at once.

        ``interrupt`` and ``terminate`` are the seconds of grace after SIGINT and SIGTERM.
        """
        given = (interrupt, terminate)
        for level, seconds in enumerate(given):
            if seconds is not None:
                self._waits[level] = seconds
        self._step()

    def terminate(self) -> None:
        """Begin with SIGTERM."""
        self._level = max(self._level, 1)
        self._step()

    def tick(self) -> None:
        """Go on once the grace is over; call it often."""
        if self._next_at is not None and self._clock() >= self._next_at:
            self._step()

    def _step(self) -> None:
        if self._level == 0:
            self._training.signal_group(signal.SIGINT)
        elif self._level == 1:
            self._training.signal(signal.SIGTERM)
        else:
            self._training.kill_all()
        # A stopped process would receive none of them but SIGKILL.
        self._training.signal_group(signal.SIGCONT)
        wait = self._waits[self._level] if self._level < len(self._waits) else None
        self._next_at = None if wait is None else self._clock() + wait
        self._level += 1
