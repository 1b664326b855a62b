"""Tails the notes that an agent writes beside its ring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec


class Note(msgspec.Struct, frozen=True):
    """One line of an agent's notes."""

    time: int
    kind: str
    duration: int = 0
    step: int = -1
    data: dict[str, Any] = msgspec.field(default_factory=dict)


class NotesTail:
    """Reads the lines added since the last ``poll``; a torn last line waits for the next one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self._offset = 0
        self._decoder = msgspec.json.Decoder(Note)

    def poll(self) -> list[Note]:
        """Notes added since the last poll.

        Raises:
            OSError: the file cannot be read.
        """
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self._offset += end
        return [note for line in data[:end].splitlines() if (note := self._decode(line))]

    def _decode(self, line: bytes) -> Note | None:
        try:
            return self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.damaged += 1
            return None
