"""Shared memory files, in which data loaders hand batches over."""

from __future__ import annotations

import os

from perftui.run.journal import Column

PLACE = "/dev/shm"  # noqa: S108 - looked at, never written to

COLUMNS = (
    Column(
        *("memory.shm_used", "B", "shared memory used", "statvfs of /dev/shm"),
        "Bytes of files in /dev/shm.",
    ),
    Column(
        *("memory.shm_total", "B", "shared memory", "statvfs of /dev/shm"),
        "Size of /dev/shm; in a container 64 MB unless more is requested.",
    ),
)


class SharedMemorySource:
    """Room and use of the file system in memory at ``place``."""

    def __init__(self, place: str = PLACE) -> None:
        self._place = place
        self.columns: tuple[Column, ...] = COLUMNS
        self.missing: dict[str, str] = {}
        try:
            os.statvfs(place)
        except OSError as error:
            self.columns = ()
            self.missing = {"memory.shm_used": f"{place}: {error.strerror}"}

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - levels need no clock
        """Values of ``columns``."""
        if not self.columns:
            return []
        room = os.statvfs(self._place)
        return [(room.f_blocks - room.f_bfree) * room.f_frsize, room.f_blocks * room.f_frsize]
