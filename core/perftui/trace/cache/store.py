"""Cached traces: found again by the path of the file, used only if that has not changed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perftui.trace.cache.directory import is_private, make_private
from perftui.trace.cache.record import Record, read_record, size_of, write_record
from perftui.trace.cache.room import COLUMNS, MOST_BYTES, PARTIAL, has_room, make_room
from perftui.trace.errors import LoadCancelled


@dataclass(frozen=True)
class Store:
    """One directory of kept traces. What cannot be read or written is as if it were not there."""

    directory: Path
    most_bytes: int = MOST_BYTES

    def find(self, source: Path, key: bytes) -> Record | None:
        """What was kept of ``source`` under ``key``; None without it, or where it is damaged."""
        if not is_private(self.directory):
            return None
        place = self._place(source)
        found = read_record(place, key)
        if found is not None:
            with suppress(OSError):
                os.utime(place)
        return found

    def keep(self, source: Path, key: bytes, record: Record, stopped: Callable[[], bool]) -> bool:
        """Keep it in place of what was kept of ``source``; whether it was.

        ``stopped`` is asked between pieces of 256 KiB.
        """
        try:
            make_private(self.directory)
            if is_private(self.directory) and has_room(
                self.directory, size_of(record), self.most_bytes
            ):
                self._write(self._place(source), key, record, stopped)
                make_room(self.directory, self.most_bytes)
                return True
        except (OSError, LoadCancelled):
            pass
        return False

    def _place(self, source: Path) -> Path:
        return self.directory / (place_of(source) + COLUMNS)

    def _write(self, place: Path, key: bytes, record: Record, stopped: Callable[[], bool]) -> None:
        handle, temporary = tempfile.mkstemp(dir=self.directory, suffix=PARTIAL)
        try:
            with os.fdopen(handle, "wb") as file:
                write_record(file, key, record, stopped)
            # Not forced to the disk: a file that a crash leaves torn does not have its checksum.
            Path(temporary).replace(place)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def place_of(source: Path) -> str:
    """What the names of all that is kept of a file begin with: the same for all its links."""
    name = os.fsencode(os.path.realpath(source))
    return hashlib.blake2b(name, digest_size=16).hexdigest()
