"""Waits for the training to end, serves signals and what viewers ask for, and ends it if asked."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from perftui.recorder.process.signals import Received, SignalQueue
from perftui.recorder.process.training import Training
from perftui.recorder.recording import Recording
from perftui.recorder.terminal.pseudo_terminal import Terminal
from perftui.run.requests import CAPTURE, RESIZE, STOP, Request, take_requests

INTERRUPT_GRACE = 30.0
"""Seconds after SIGINT: scripts that catch KeyboardInterrupt save a checkpoint first."""

TERMINATE_GRACE = 10.0
"""Seconds after SIGTERM, as container runtimes give."""


class Stopper:
    """SIGINT to the group, SIGTERM to the leader, SIGKILL to everything; ``clock`` in seconds."""

    def __init__(self, training: Training, clock: Callable[[], float] = time.monotonic) -> None:
        self._training = training
        self._clock = clock
        self._level = 0
        self._next_at = math.inf

    def terminate(self) -> None:
        """Begin with SIGTERM."""
        self._level = max(self._level, 1)
        self.ask()

    def tick(self) -> None:
        """Go on once the grace is over; call it often."""
        if self._clock() >= self._next_at:
            self.ask()

    def ask(self) -> None:
        """Begin to stop; while that is under way, go on to the next step at once."""
        if self._level == 0:
            self._training.signal_group(signal.SIGINT)
        elif self._level == 1:
            self._training.signal(signal.SIGTERM)
        else:
            self._training.kill_all()
        # A stopped process would receive none of them but SIGKILL.
        self._training.signal_group(signal.SIGCONT)
        wait = (INTERRUPT_GRACE, TERMINATE_GRACE, math.inf)[min(self._level, 2)]
        self._next_at = self._clock() + wait
        self._level += 1


def _serve_requests(recording: Recording, stopper: Stopper, terminal: Terminal | None) -> None:
    """Serve what was asked for since the last call, in the thread that may signal the training."""
    try:
        requests = take_requests(recording.layout)
    except OSError as error:
        recording.faults.report("requests", f"{error}; the training goes on")
        return
    for request in requests:
        serve = partial(_serve, request, recording, stopper, terminal)
        recording.attempt(f"request {request.kind}", serve)


def _serve(
    request: Request, recording: Recording, stopper: Stopper, terminal: Terminal | None
) -> None:
    if request.kind == CAPTURE:
        recording.count_capture()
    elif request.kind == STOP:
        stopper.ask()
        recording.note_stop(request.data.get("reason"))
    elif terminal is None:
        raise ValueError("this run has no terminal of its own")
    elif request.kind == RESIZE:
        rows, columns = (_cells(request.data.get(name)) for name in ("rows", "columns"))
        terminal.resize(rows, columns)


def _cells(value: Any) -> int:
    cells = int(value)
    if not 0 < cells < 1 << 16:
        raise ValueError(f"a terminal cannot have {cells} rows or columns")
    return cells


POLL_SECONDS = 0.1
"""Seconds between two checks for requests; the end of the training ends the wait at once."""


def supervise(
    recording: Recording,
    training: Training,
    terminal: Terminal | None,
    signals: SignalQueue,
    on_signal: Callable[[Received, Stopper], object],
) -> int:
    """The return code of ``training``, negative for a signal."""
    stopper = Stopper(training)
    while (returncode := training.poll()) is None:
        received = signals.wait(POLL_SECONDS)
        if received is not None:
            on_signal(received, stopper)
        stopper.tick()
        _serve_requests(recording, stopper, terminal)
    return returncode
