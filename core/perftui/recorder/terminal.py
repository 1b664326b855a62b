"""The pseudo-terminal that a script is given."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

_SIZE = struct.Struct("HHHH")


class Terminal:
    """A pair of descriptors: the script gets ``script_side``, we keep ``our_side``.

    A new pair has the settings that any terminal starts with: line editing, echo, and ``\\n``
    shown as ``\\r\\n``.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self.our_side, self.script_side = os.openpty()
        os.set_blocking(self.our_side, False)
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size; the kernel tells the script with SIGWINCH where it changed."""
        fcntl.ioctl(self.our_side, termios.TIOCSWINSZ, _SIZE.pack(rows, columns, 0, 0))

    def copy_settings(self, file: int) -> None:
        """Take over the settings of the terminal ``file``."""
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
        taken = 0
        try:
            while taken < len(data):
                taken += os.write(self.our_side, data[taken:])
        except BlockingIOError:
            return taken
        return taken

    def is_suspend(self, data: bytes) -> bool:
        """Whether typing ``data`` asks to suspend: the suspend character, where it means that."""
        _, _, _, local, _, _, characters = termios.tcgetattr(self.our_side)
        suspend = characters[termios.VSUSP]
        return bool(local & termios.ISIG) and isinstance(suspend, bytes) and suspend in data

    def forget_script_side(self) -> None:
        """Close our copy of the script's side once the script has its own."""
        os.close(self.script_side)


def window_size(file: int) -> tuple[int, int]:
    """(rows, columns) of the terminal ``file``.

    Raises:
        OSError: it is not a terminal.
    """
    rows, columns, _, _ = _SIZE.unpack(fcntl.ioctl(file, termios.TIOCGWINSZ, b"\0" * _SIZE.size))
    return rows, columns
