"""Tails the notes that an agent writes beside its ring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from perftui.run.damage import DAMAGE
from perftui.run.line_tail import LineTail


class Note(msgspec.Struct, frozen=True):
    """One line of an agent's notes."""

    time: int
    kind: str
    duration: int = 0
    step: int = -1
    data: dict[str, Any] = msgspec.field(default_factory=dict)


class NotesTail:
    """Reads the notes added since the last ``poll``; ``damaged`` counts those that are none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tail = LineTail(path)
        self._undecoded = 0
        self._decoder = msgspec.json.Decoder(Note)

    @property
    def damaged(self) -> int:
        """Lines that were left out."""
        return self._undecoded + self._tail.skipped

    def poll(self) -> list[Note]:
        """Notes added since the last poll; none while there is no file.

        Raises:
            OSError: the file is there and cannot be read.
        """
        return [note for line in self._tail.poll() if (note := self._decode(line))]

    def _decode(self, line: bytes) -> Note | None:
        try:
            return self._decoder.decode(line)
        except DAMAGE:
            self._undecoded += 1
            return None
