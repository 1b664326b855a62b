"""Tails the notes that an agent writes beside its ring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from perftui.run.line_tail import LineTail
from perftui.run.versioned import DAMAGE


class Note(msgspec.Struct, frozen=True):
    """One line of an agent's notes."""

    time: int
    kind: str
    duration: int = 0
    step: int = -1
    data: dict[str, Any] = msgspec.field(default_factory=dict)


MOST_BYTES = 1 << 20
"""Bytes of a notes file that are read: the spool is memory, and a training may write for ever."""


class NotesTail:
    """Reads the notes added since the last ``poll``; ``damaged`` counts those that are none.

    A file that has grown is put aside, and the agent begins another. It stays until the next one is
    put aside: an agent that had opened it then may still write to it.
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._tail = LineTail(path)
        self._aside: LineTail | None = None
        self._damaged = 0
        self._decoder = msgspec.json.Decoder(Note)

    @property
    def damaged(self) -> int:
        """Lines that were left out."""
        aside = self._aside.skipped if self._aside else 0
        return self._damaged + aside + self._tail.skipped

    def poll(self) -> list[Note]:
        """Notes added since the last poll; none while there is no file.

        Raises:
            OSError: the file is there and cannot be read.
        """
        lines = self._aside.poll() if self._aside else []
        lines += self._tail.poll()
        if self._tail.position >= self._most_bytes:
            self._put_aside()
        return [note for line in lines if (note := self._decode(line))]

    def _put_aside(self) -> None:
        if self._aside is not None:
            self._damaged += self._aside.skipped
        self._tail.path = self.path.replace(self.path.with_suffix(".aside"))
        self._aside, self._tail = self._tail, LineTail(self.path)

    def _decode(self, line: bytes) -> Note | None:
        try:
            return self._decoder.decode(line)
        except DAMAGE:
            self._damaged += 1
            return None
