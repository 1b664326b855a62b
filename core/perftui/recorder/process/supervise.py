"""Waits for the training to end, serving signals and requests meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from perftui.recorder.process.requests import RequestServer
from perftui.recorder.process.signals import Received, SignalQueue
from perftui.recorder.process.stopping import Stopper
from perftui.recorder.process.training import Training

TURN = 0.1
"""Seconds between two checks for requests; the end of the training ends the wait at once."""


def supervise(
    training: Training,
    signals: SignalQueue,
    stopper: Stopper,
    requests: RequestServer,
    on_signal: Callable[[Received], object],
) -> int:
    """The return code of ``training``, negative for a signal."""
    while (returncode := training.poll()) is None:
        received = signals.wait(TURN)
        if received is not None:
            on_signal(received)
        stopper.tick()
        requests.turn()
    return returncode
