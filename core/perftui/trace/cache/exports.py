"""Exports of reports that only another program can read: that program takes minutes."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perftui.trace.cache.directory import cache_directory, is_private, make_private
from perftui.trace.cache.record import checksum_of_rest
from perftui.trace.cache.room import EXPORT, MOST_BYTES, PARTIAL, has_room, make_room
from perftui.trace.cache.store import place_of

_IDENTITY_DIGITS = 32


@dataclass(frozen=True)
class Exports:
    """One directory of kept exports. What cannot be read or written is as if it were not there.

    An export is named by the path of its report, the identity of that, and its own checksum: it is
    found only for the same report, and only whole.
    """

    directory: Path
    most_bytes: int = MOST_BYTES

    def find(self, report: Path, identity: bytes) -> Path | None:
        """The export of ``report``; None without one, or where it is damaged.

        Every byte of it is read, which takes a fraction of what reading its rows does.
        """
        if not is_private(self.directory):
            return None
        for path in self.directory.glob(f"{place_of(report)}-{_state(identity)}-*{EXPORT}"):
            with suppress(OSError):
                if path.stem.endswith(f"-{_checksum(path):08x}"):
                    touch(path)
                    return path
        return None

    def workplace(self) -> Path | None:
        """A new empty directory to export into; None where there is no room for an export."""
        try:
            make_private(self.directory)
            if is_private(self.directory) and has_room(self.directory, 0, self.most_bytes):
                return Path(tempfile.mkdtemp(dir=self.directory, suffix=PARTIAL))
        except OSError:
            pass
        return None

    def keep(self, report: Path, identity: bytes, made: Path) -> Path | None:
        """Move what was made in ``workplace`` to where it is found; None if it is not kept."""
        try:
            if made.stat().st_size > self.most_bytes or not has_room(self.directory, 0):
                return None
            name = f"{place_of(report)}-{_state(identity)}-{_checksum(made):08x}{EXPORT}"
            made.chmod(0o600)
            made.replace(self.directory / name)
        except OSError:
            return None
        with suppress(OSError):
            for path in self.directory.glob(f"{place_of(report)}-*{EXPORT}"):
                if path.name != name:
                    path.unlink(missing_ok=True)
            make_room(self.directory, self.most_bytes)
        return self.directory / name


def cached_exports() -> Exports | None:
    """The exports kept for this user; None where nothing is to be kept."""
    directory = cache_directory()
    return None if directory is None else Exports(directory)


def touch(export: Path) -> None:
    """Say that it was used, and change nothing that it is known by. Raises OSError."""
    os.utime(export, ns=(time.time_ns(), export.stat().st_mtime_ns))


def _state(identity: bytes) -> str:
    return identity.hex()[:_IDENTITY_DIGITS]


def _checksum(path: Path) -> int:
    with path.open("rb") as file:
        return checksum_of_rest(file)
