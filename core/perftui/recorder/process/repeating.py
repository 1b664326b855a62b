"""Work done over and over in a thread that gives way to the training."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from perftui.recorder.faults import FaultLog

NICENESS = 10
"""Niceness of the threads that drain and sample. The ones that carry the script's output keep the
script's own priority, since it waits for them when a pipe is full."""


class Repeating:
    """Calls ``work`` every ``seconds`` until stopped; what it raises is reported and it goes on."""

    def __init__(
        self, name: str, seconds: float, work: Callable[[], object], faults: FaultLog
    ) -> None:
        self.name = name
        self._seconds = seconds
        self._work = work
        self._faults = faults
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self, patience: float | None = None) -> bool:
        """Let the current turn end, and no other begin.

        Waits for the turn, at most ``patience`` seconds; whether it has ended.
        """
        self._stopped.set()
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        _give_way()
        due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - a bug here must not end the recording
                self._faults.report(f"{self.name}: {type(error).__name__}", error)
            # Turns that were missed are left out, not caught up with.
            due = max(due + self._seconds, time.monotonic())


def _give_way() -> None:
    """Lower the priority of this thread alone, which only Linux can.

    One that gives way further already stays as it is: raising it takes a privilege.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):
            if os.getpriority(os.PRIO_PROCESS, thread) < NICENESS:
                os.setpriority(os.PRIO_PROCESS, thread, NICENESS)
