"""A terminal at the far end of a slow link: so many bytes a second, so much later each way."""

import os
import select
import time
from collections import deque
from pathlib import Path

from tests.terminal import Terminal

SYNC_QUERY, SYNC_ANSWER = b"\x1b[?2026$p", "\x1b[?2026;2$y"
PIECE = 1024
"""Bytes read at once: a link hands on small pieces, and the rest waits on the program's side."""

BUFFER = 64 * 1024
"""Bytes that a link takes in before it makes the program wait, as a socket's buffer does."""


class Link:
    """A terminal behind a link. Time passes only in ``run``, ``wait_for`` and ``answer``."""

    def __init__(
        self,
        command: list[str],
        cwd: Path,
        size: tuple[int, int],
        *,
        bytes_per_second: float = 0.0,
        delay: float = 0.0,
    ) -> None:
        self.terminal = Terminal(command, cwd, *size)
        self.rate, self.delay = bytes_per_second, delay
        self.received = 0
        """Bytes that have arrived."""
        self.arrived = 0.0
        """When the newest of them did: drawing them here takes longer than in a terminal."""
        self._out: deque[tuple[float, bytes]] = deque()
        self._in: deque[tuple[float, str]] = deque()
        self._free_at = 0.0
        self._answered = False

    @property
    def text(self) -> str:
        """What the person at the far end sees."""
        return self.terminal.text

    def press(self, keys: str) -> None:
        """Type at the far end."""
        self._in.append((time.monotonic() + self.delay, keys))

    def run(self, seconds: float) -> None:
        """Let that much time pass."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            self._step(min(end - now, 0.005))

    def wait_for(self, words: str, timeout: float) -> float:
        """Seconds until what says ``words`` has come to the far end.

        Raises TimeoutError when it does not."""
        begin = time.monotonic()
        seen = -1
        while seen == self.received or words not in self.text:
            if time.monotonic() - begin > timeout:
                raise TimeoutError(f"{words!r} is not on the screen:\n{self.text}")
            seen = self.received
            self.run(0.01)
        return max(0.0, self.arrived - begin)

    def answer(self, key: str, words: str, timeout: float = 60.0) -> float:
        """Seconds from ``key`` to ``words``, both at the far end."""
        self.press(key)
        return self.wait_for(words, timeout)

    def close(self) -> None:
        """Hang up."""
        self.terminal.close()

    def _step(self, patience: float) -> None:
        now = time.monotonic()
        master = self.terminal._master
        while self._in and self._in[0][0] <= now:
            os.write(master, self._in.popleft()[1].encode())
        waiting = sum(len(data) for _, data in self._out)
        can_read = waiting < BUFFER
        ready = select.select([master] if can_read else [], [], [], patience)[0]
        if ready:
            try:
                data = os.read(master, PIECE)
            except OSError:  # the program closed the terminal
                data = b""
            took = len(data) / self.rate if self.rate else 0.0
            self._free_at = max(self._free_at, time.monotonic()) + took
            self._out.append((self._free_at + self.delay, data))
        while self._out and self._out[0][0] <= time.monotonic():
            self._show(self._out.popleft()[1])

    def _show(self, data: bytes) -> None:
        self.received += len(data)
        self.arrived = time.monotonic()
        self.terminal.written += data
        self.terminal._stream.feed(data)
        if not self._answered and SYNC_QUERY in self.terminal.written:
            self._answered = True
            self.press(SYNC_ANSWER)
