"""Carries keys from our terminal to the script's."""

from __future__ import annotations

import os
import select
import signal
import threading

from perftui.recorder.own_terminal import KEYBOARD
from perftui.recorder.terminal import Terminal

FULL = 0.05
"""Seconds to wait while the script's terminal takes no more."""


class KeyboardRelay:
    """Types into ``terminal`` what is typed at ours, in a thread of its own.

    The suspend character, where the script's terminal takes it as such, suspends us (SIGTSTP):
    the script leads a session, in which the kernel would ignore it.
    """

    def __init__(self, terminal: Terminal, source: int = KEYBOARD) -> None:
        self._terminal = terminal
        self._source = source
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="keyboard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read no more keys."""
        os.write(self._wake_write, b"s")
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _run(self) -> None:
        typed = b""
        while True:
            sources = [self._wake_read] if typed else [self._wake_read, self._source]
            ready, _, _ = select.select(sources, [], [], FULL if typed else None)
            if self._wake_read in ready:
                return
            if not typed:
                typed = self._read()
                if not typed:
                    return
            typed = typed[self._terminal.type(typed) :]

    def _read(self) -> bytes:
        """The next keys for the script; empty where our terminal is gone."""
        while True:
            try:
                data = os.read(self._source, 4096)
            except OSError:
                return b""
            if not data or not self._terminal.is_suspend(data):
                return data
            os.kill(os.getpid(), signal.SIGTSTP)
