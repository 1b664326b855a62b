"""Leader election: one of the recorders of a run on one host samples that machine.

Who holds the lock does. The kernel lets go of it when its holder dies, and the next takes over.
"""

from __future__ import annotations

import fcntl
import os
import time

from perftui.recorder.faults import FaultLog
from perftui.run.layout import RunLayout

HEAD_START = 5.0
"""Seconds by which the recorder that began the run is ahead of those that joined it: what it finds
out about the machine is in the manifest that readers look at first."""

RETRY_SECONDS = 5.0
"""Between two tries to take over: the lock may be one of a network disk."""


class LeaderElection:
    """``is_won`` by one of the recorders on ``host`` at a time.

    Where the disk knows no locks everybody wins, and readers take one of them.
    """

    def __init__(self, layout: RunLayout, host: str, faults: FaultLog) -> None:
        self._path = layout.run.sampling_lock(host)
        self._faults = faults
        self._file: int | None = None
        self._is_settled = False
        is_first = layout.run.root == layout.root
        self._from = time.monotonic() + (0.0 if is_first else HEAD_START)

    def is_won(self) -> bool:
        """Whether this recorder samples the machine; from then on it always does."""
        now = time.monotonic()
        if not self._is_settled and now >= self._from:
            self._from = now + RETRY_SECONDS
            self._is_settled = self._take()
        return self._is_settled

    def close(self) -> None:
        """Let another one do it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _take(self) -> bool:
        try:
            if self._file is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._file = os.open(self._path, flags, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            self._faults.report("sampling", f"{error}; every recorder on this host samples it")
        return True
