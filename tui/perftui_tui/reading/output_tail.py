"""Reads ``output.log`` as it grows, into a bounded number of lines."""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from perftui.run.files import open_regular
from perftui_tui.reading.line_buffer import LineBuffer

LINES_KEPT = 20_000
"""Lines in memory; the file has them all."""

READ_LIMIT = 4 * 1024 * 1024
"""Bytes read at once, and how far before its end a longer file is entered."""


@dataclass(frozen=True)
class Output:
    """What the script has printed so far, or the newest part of it."""

    lines: tuple[str, ...] = ()
    """Oldest first; the last may still change: a progress bar has no newline yet."""
    dropped: int = 0
    """Lines before these that are not kept."""
    skipped_bytes: int = 0
    """Bytes at the beginning of the file that were not read, so that opening it is quick."""


class OutputTail:
    """Tails the file at ``path``, which may not exist yet."""

    def __init__(self, path: Path, lines_kept: int = LINES_KEPT) -> None:
        self._path = path
        self._offset = 0
        self._skipped = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._buffer = LineBuffer()
        self._ring: deque[str] = deque(maxlen=lines_kept)
        self._finished = 0

    def poll(self) -> bool:
        """Read what was added, at most ``READ_LIMIT`` bytes; whether there was anything.

        Raises:
            OSError: the file is there but cannot be read.
        """
        try:
            with open_regular(self._path) as file:
                size = file.seek(0, 2)
                if not self._offset and size > READ_LIMIT:
                    self._offset = self._skipped = size - READ_LIMIT
                file.seek(self._offset)
                data = file.read(READ_LIMIT)
        except FileNotFoundError:
            return False
        self._offset += len(data)
        finished = self._buffer.feed(self._decoder.decode(data))
        self._finished += len(finished)
        self._ring.extend(finished)
        return bool(data)

    def view(self) -> Output:
        """What is kept, as a value that later polls do not change."""
        screen = self._buffer.lines
        if screen and not screen[-1]:
            screen = screen[:-1]
        dropped = self._finished - len(self._ring)
        return Output((*self._ring, *screen), dropped, self._skipped)
