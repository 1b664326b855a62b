"""Carries keys from our terminal to the script's."""

from __future__ import annotations

import os
import select
import signal
import threading

from perftui.recorder.terminal.own_terminal import KEYBOARD
from perftui.recorder.terminal.pseudo_terminal import Terminal

FULL = 0.05
"""Seconds to wait while the script's terminal takes no more."""


STOP, LOOK = b"s", b"l"


class KeyboardRelay:
    """Types into ``terminal`` what is typed at ours, in a thread of its own.

    The suspend character, where the script's terminal takes it as such, suspends us (SIGTSTP):
    the script leads a session, in which the kernel would ignore it.
    """

    def __init__(self, terminal: Terminal, source: int = KEYBOARD) -> None:
        self._terminal = terminal
        self._source = source
        self._listens = True
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="keyboard", daemon=True)
        self._thread.start()

    def listen(self, listens: bool) -> None:
        """Read keys, or leave them to whoever has our terminal now: in the background, reading
        would stop us."""
        self._listens = listens
        os.write(self._wake_write, LOOK)

    def stop(self) -> None:
        """Read no more keys."""
        os.write(self._wake_write, STOP)
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _run(self) -> None:
        typed = b""
        while True:
            reads = self._listens and not typed
            sources = [self._wake_read, self._source] if reads else [self._wake_read]
            ready, _, _ = select.select(sources, [], [], FULL if typed else None)
            if self._wake_read in ready:
                if os.read(self._wake_read, 1) == STOP:
                    return
            elif self._source in ready:
                keys = self._read()
                if keys is None:
                    return
                typed = keys
            typed = typed[self._terminal.type(typed) :]

    def _read(self) -> bytes | None:
        """The keys for the script; None where our terminal is gone."""
        try:
            data = os.read(self._source, 4096)
        except OSError:
            return None
        if data and self._terminal.is_suspend(data):
            os.kill(os.getpid(), signal.SIGTSTP)
            return b""
        return data or None
