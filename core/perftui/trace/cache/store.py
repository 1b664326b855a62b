"""Kept traces: found again by the path of the file, used only if that is still the same."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perftui.trace.cache.directory import is_private, make_private
from perftui.trace.cache.record import Record, read_record, size_of, write_record
from perftui.trace.errors import LoadCancelled

_ENDING = ".columns"
_PARTIAL = ".partial"
MOST_BYTES = 2 << 30
"""Of all kept traces together: those used longest ago give way."""

_LEFT_FREE = 1 << 30
"""Bytes of the disk that are left alone: a training may be about to write a checkpoint there."""

_ABANDONED = 3600.0
"""Seconds after which a file that is still being written has no writer any more."""


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
            if is_private(self.directory) and self._has_room(size_of(record)):
                self._write(self._place(source), key, record, stopped)
                self._make_room()
                return True
        except (OSError, LoadCancelled):
            pass
        return False

    def _place(self, source: Path) -> Path:
        name = os.fsencode(os.path.realpath(source))
        return self.directory / (hashlib.blake2b(name, digest_size=16).hexdigest() + _ENDING)

    def _has_room(self, size: int) -> bool:
        free = shutil.disk_usage(self.directory).free
        return size <= self.most_bytes and size + _LEFT_FREE <= free

    def _write(self, place: Path, key: bytes, record: Record, stopped: Callable[[], bool]) -> None:
        def pause() -> None:
            if stopped():
                raise LoadCancelled

        handle, temporary = tempfile.mkstemp(dir=self.directory, suffix=_PARTIAL)
        try:
            with os.fdopen(handle, "wb") as file:
                write_record(file, key, record, pause)
            # Not forced to the disk: a file that a crash leaves torn does not have its checksum.
            Path(temporary).replace(place)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _make_room(self) -> None:
        """Remove what was used longest ago until the rest is small enough, and what writers that
        were killed left behind."""
        now = time.time()
        kept: list[tuple[float, int, Path]] = []
        for path in self.directory.iterdir():
            with suppress(FileNotFoundError):
                status = path.stat()
                if path.suffix == _ENDING:
                    kept.append((status.st_mtime, status.st_size, path))
                elif path.suffix == _PARTIAL and now - status.st_mtime > _ABANDONED:
                    path.unlink()
        total = 0
        for _, size, path in sorted(kept, reverse=True):
            total += size
            if total > self.most_bytes:
                path.unlink(missing_ok=True)
