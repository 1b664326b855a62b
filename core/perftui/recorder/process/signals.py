"""Signals as a queue: blocked everywhere, taken one at a time by the thread that supervises."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from typing import NamedTuple

POLL = 0.02
"""Seconds between two checks where the platform cannot wait for signals with a limit (macOS)."""


class Received(NamedTuple):
    """One signal and whether the kernel sent it (a key at the terminal), not a process."""

    number: int
    by_kernel: bool


class SignalQueue:
    """Takes over ``watched`` and SIGCHLD from here on, in this thread and those it starts.

    ``ignored`` are ignored. ``restore`` undoes both and is meant for the child, too.
    """

    def __init__(self, watched: Iterable[int], ignored: Iterable[int] = ()) -> None:
        self._watched = {*watched, signal.SIGCHLD}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._watched)
        self._before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}

    def wait(self, seconds: float) -> Received | None:
        """The next signal, or None after ``seconds`` without one."""
        if not hasattr(signal, "sigtimedwait"):
            return self._look(seconds)
        info = signal.sigtimedwait(self._watched, seconds)
        # SI_KERNEL is 0x80; kill, sigqueue and tgkill have codes of 0 and below.
        return None if info is None else Received(info.si_signo, info.si_code > 0)

    def restore(self) -> None:
        """Give signals back their disposition and mask of before."""
        for number, disposition in self._before.items():
            signal.signal(number, disposition)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def restore_default(self) -> None:
        """Default dispositions and the mask of before: for the script of a detached recorder,
        which must not inherit what the viewer or the recorder ignore."""
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, *self._before):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _look(self, seconds: float) -> Received | None:
        until = time.monotonic() + seconds
        while not (pending := signal.sigpending() & self._watched):
            if time.monotonic() >= until:
                return None
            time.sleep(POLL)
        number = signal.sigwait(pending)
        terminal = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
        return Received(number, number in terminal)
