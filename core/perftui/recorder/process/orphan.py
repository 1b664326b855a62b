"""Ends a script in the foreground when its recorder is killed, which nothing else would tell it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def ends_with(parent: int) -> Callable[[], None]:
    """What a child of process ``parent`` calls before its exec, to get SIGTERM once that is dead.

    Whoever kills us with SIGKILL (``timeout -s KILL``, ``subprocess.run(timeout=...)``) means the
    training, which would hold its GPU for ever without output to notice it by. SIGTERM, since a
    launcher hands that on to its workers, and scripts save their state. Nothing outside Linux.
    """
    if sys.platform != "linux":
        return _nothing
    # Loaded here: between fork and exec there is no room for it.
    prctl = ctypes.CDLL(None).prctl

    def declare() -> None:
        prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            # It died before that.
            os.kill(os.getpid(), signal.SIGTERM)

    return declare


def _nothing() -> None:
    """Where a child cannot ask for it."""
