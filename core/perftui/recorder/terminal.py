"""The terminal that we were started from, and the relay of its keys to the script's."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import termios
import threading
import tty
from contextlib import suppress

_SIZE = struct.Struct("HHHH")


class Terminal:
    """A pair of descriptors: the script gets ``script_side``, we keep the other.

    A new pair has the settings that any terminal starts with: line editing, echo, and ``\\n``
    shown as ``\\r\\n``.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self._our_side, self.script_side = os.openpty()
        os.set_blocking(self._our_side, False)
        self.resize(rows, columns)

    def reader(self) -> int:
        """Another descriptor of our side, for the reader of the script's output, who closes it:
        keys are typed here while the training lives, also after its output ended."""
        return os.dup(self._our_side)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size; the kernel sends the script SIGWINCH if it changed."""
        fcntl.ioctl(self._our_side, termios.TIOCSWINSZ, _SIZE.pack(rows, columns, 0, 0))

    def copy_settings(self, file: int) -> None:
        """Copy the settings of the terminal ``file``."""
        termios.tcsetattr(self.script_side, termios.TCSANOW, termios.tcgetattr(file))

    def leave_output_untouched(self) -> None:
        """Add no carriage returns."""
        settings = termios.tcgetattr(self.script_side)
        settings[1] &= ~termios.OPOST
        termios.tcsetattr(self.script_side, termios.TCSANOW, settings)

    def type(self, data: bytes) -> int:
        """Type ``data`` as a person would; returns how many bytes the terminal took.

        Never waits: a script that does not read its input lets the terminal fill up.
        """
        count = 0
        try:
            while count < len(data):
                count += os.write(self._our_side, data[count:])
        except BlockingIOError:
            return count
        except OSError:
            # EIO: nobody holds the script's side any more, so nobody would read it.
            return len(data)
        return count

    def is_suspend(self, data: bytes) -> bool:
        """Whether ``data`` is the terminal's suspend character, while that has its meaning."""
        _, _, _, local, _, _, characters = termios.tcgetattr(self._our_side)
        suspend = characters[termios.VSUSP]
        return bool(local & termios.ISIG) and isinstance(suspend, bytes) and suspend in data

    def forget_script_side(self) -> None:
        """Close our copy of the script's side once the script has its own."""
        os.close(self.script_side)

    def close(self) -> None:
        """Close our side; the script is hung up on once every reader has closed theirs too."""
        os.close(self._our_side)


def window_size(file: int) -> tuple[int, int]:
    """(rows, columns) of the terminal ``file``. Raises OSError if it is not a terminal."""
    rows, columns, _, _ = _SIZE.unpack(fcntl.ioctl(file, termios.TIOCGWINSZ, b"\0" * _SIZE.size))
    return rows, columns


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
        """Restore the terminal if it was changed; one that is gone needs nothing.

        A terminal that another job uses meanwhile is left alone: setting it would stop us.
        """
        if self._is_raw:
            self._is_raw = False
            with suppress(termios.error):
                termios.tcsetattr(KEYBOARD, termios.TCSADRAIN, self._before)


FULL = 0.05
"""Seconds to wait while the script's terminal takes no more."""


STOP, LOOK = b"s", b"l"


class KeyboardRelay:
    """Types into ``terminal`` the keys from ours, in a thread of its own.

    The suspend character, where the script's terminal takes it as such, suspends us (SIGTSTP): the
    script leads a session, in which the kernel would ignore it.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._listens = True
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="keyboard", daemon=True)
        self._thread.start()

    def listen(self, listens: bool) -> None:
        """Read keys, or leave them to the owner of our terminal: in the background, reading would
        stop us."""
        self._listens = listens
        os.write(self._wake_write, LOOK)

    def stop(self) -> None:
        """Stop reading keys."""
        os.write(self._wake_write, STOP)
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _run(self) -> None:
        typed = b""
        while True:
            reads = self._listens and not typed
            sources = [self._wake_read, KEYBOARD] if reads else [self._wake_read]
            ready, _, _ = select.select(sources, [], [], FULL if typed else None)
            if self._wake_read in ready:
                if os.read(self._wake_read, 1) == STOP:
                    return
            elif KEYBOARD in ready:
                keys = self._read()
                if keys is None:
                    return
                typed = keys
            typed = typed[self._terminal.type(typed) :]

    def _read(self) -> bytes | None:
        """The keys for the script; None where our terminal is gone."""
        try:
            data = os.read(KEYBOARD, 4096)
        except OSError:
            return None
        if data and self._terminal.is_suspend(data):
            os.kill(os.getpid(), signal.SIGTSTP)
            return b""
        return data or None
