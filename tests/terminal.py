"""A real terminal for whole programs: a pty, a screen emulator, and patience."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte


class Terminal:
    """A program on a pseudo-terminal, and what a person would see of it."""

    def __init__(self, command: list[str], cwd: Path, columns: int = 120, rows: int = 40) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""
        """All bytes so far: what is written after the program leaves its full screen, say."""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "TEXTUAL_ANIMATIONS": "none"}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)

    @property
    def text(self) -> str:
        """The screen as lines of text."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def press(self, keys: str) -> None:
        """Type ``keys``."""
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Have the terminal another size from now on."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds: float) -> None:
        """Take in what the program writes for that long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self._master], [], [], left)
            if not ready:
                return
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the program closed the terminal
                return
            if not data:
                return
            self.written += data
            self._stream.feed(data)

    def wait_for(self, condition: str | Callable[[str], bool], timeout: float = 60.0) -> str:
        """Wait until the text is on the screen, or the condition on the screen holds."""
        holds = (lambda text: condition in text) if isinstance(condition, str) else condition
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self.read(0.2)
            if holds(self.text):
                return self.text
        raise AssertionError(f"never on the screen: {condition!r}\n{self.text}")

    def wait_for_stop(self, timeout: float = 30.0) -> None:
        """Wait until the program has stopped itself.

        What it writes before that is read meanwhile: it cannot stop while nobody takes it."""
        end = time.monotonic() + timeout
        while os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG) is None:
            assert time.monotonic() < end, f"it did not stop\n{self.text}"
            self.read(0.1)

    def wait(self, timeout: float = 30.0) -> int:
        """Wait for the program's end; its exit code."""
        end = time.monotonic() + timeout
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.2)
        self.read(0.2)
        return self.process.wait(timeout=timeout)

    def close(self) -> None:
        """Hang up, as a lost connection does."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._master)
