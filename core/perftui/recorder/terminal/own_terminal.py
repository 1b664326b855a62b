"""The terminal that we ourselves were started from."""

from __future__ import annotations

import os
import termios
import tty
from contextlib import suppress

KEYBOARD = 0
SCREEN = 1


def is_foreground_job() -> bool:
    """Whether the keys of a controlling terminal reach our process group."""
    try:
        file = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(file) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(file)


class RawKeyboard:
    """Our terminal with every key passed through untouched, between ``enter`` and ``leave``."""

    def __init__(self) -> None:
        self._before = termios.tcgetattr(KEYBOARD)
        self._is_raw = False

    def enter(self) -> None:
        """Pass keys through, also those that would send signals."""
        self._is_raw = True
        with suppress(termios.error):
            tty.setraw(KEYBOARD, termios.TCSADRAIN)

    def leave(self) -> None:
        """Put the terminal back as it was found, if it was changed; one that is gone needs nothing.

        A terminal that is somebody else's meanwhile is left alone: setting it would stop us.
        """
        if self._is_raw:
            self._is_raw = False
            with suppress(termios.error):
                termios.tcsetattr(KEYBOARD, termios.TCSADRAIN, self._before)
