"""The pseudo-terminal that a script is given."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

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
        """Another descriptor of our side, for whoever reads what the script writes, to be closed
        by them: keys are typed here as long as the training lives, also after its output ended."""
        return os.dup(self._our_side)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size; the kernel notifies the script with SIGWINCH where it changed."""
        fcntl.ioctl(self._our_side, termios.TIOCSWINSZ, _SIZE.pack(rows, columns, 0, 0))

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
                taken += os.write(self._our_side, data[taken:])
        except BlockingIOError:
            return taken
        except OSError:
            # EIO: nobody holds the script's side any more, so there is nobody to type to.
            return len(data)
        return taken

    def is_suspend(self, data: bytes) -> bool:
        """Whether typing ``data`` asks to suspend: the suspend character, where it means that."""
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
    """(rows, columns) of the terminal ``file``.

    Raises:
        OSError: it is not a terminal.
    """
    rows, columns, _, _ = _SIZE.unpack(fcntl.ioctl(file, termios.TIOCGWINSZ, b"\0" * _SIZE.size))
    return rows, columns
