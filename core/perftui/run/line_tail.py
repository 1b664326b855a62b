"""Follows a file of lines that another process appends to."""

from __future__ import annotations

from pathlib import Path

from perftui.run.regular import open_regular

CHUNK = 16 * 1024 * 1024
"""Bytes read at a time: a reader that comes late catches up without holding the whole file."""

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of a line that is still taken for one; what goes on for longer is damage, and keeping it
would fill the memory of whoever reads."""


class LineTail:
    """Each ``poll`` returns the lines of ``path`` that were finished since the last one.

    A last line without an end waits for the next poll. A line of more than ``longest`` bytes is
    left out and counted in ``skipped``. A file that does not exist yet has no lines.
    """

    def __init__(self, path: Path, longest: int = LONGEST_LINE) -> None:
        self.path = path
        self.skipped = 0
        self._longest = longest
        self._offset = 0
        self._is_skipping = False

    @property
    def position(self) -> int:
        """Bytes of the file that are done with."""
        return self._offset

    def poll(self, limit: int = CHUNK) -> list[bytes]:
        """Lines without their ends, empty ones left out; reads ``limit`` bytes, or one line.

        Raises:
            OSError: the file is there and cannot be read.
        """
        data = self._read(limit)
        end = data.rfind(b"\n") + 1
        if not end and len(data) > self._longest:
            self._skip(data)
            return []
        self._offset += end
        lines = data[:end].split(b"\n")
        if end and self._is_skipping:
            # The first is the rest of the line that was too long.
            lines, self._is_skipping = lines[1:], False
        return [line for line in lines if line]

    def _read(self, limit: int) -> bytes:
        try:
            with open_regular(self.path) as file:
                file.seek(self._offset)
                data = file.read(limit)
                # A line longer than the limit is read to its end, or nothing would ever be read.
                while b"\n" not in data and limit <= len(data) <= self._longest:
                    more = file.read(limit)
                    if not more:
                        break
                    data += more
        except FileNotFoundError:
            return b""
        return data

    def _skip(self, data: bytes) -> None:
        self.skipped += not self._is_skipping
        self._is_skipping = True
        self._offset += len(data)
