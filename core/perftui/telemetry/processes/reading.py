"""Counters of one process at one moment, and where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class ProcessReading(NamedTuple):
    """Counters of a process so far; None where the platform does not count or does not report.

    No data class: hundreds are made for each sample, and making one takes five times as long.
    """

    pid: int
    started: float
    """When it began, in any unit: a pid alone may be that of an earlier process."""
    cpu: float
    """Seconds of user and system time."""
    rss: float
    threads: float
    voluntary: float | None
    """Context switches of the main thread."""
    involuntary: float | None
    read: float | None
    """Bytes from storage."""
    written: float | None
    major_faults: float | None
    """Pages that had to be read from a disk, of all threads."""

    @property
    def identity(self) -> tuple[int, float]:
        """The process, and no other that is given its number later."""
        return self.pid, self.started


class ProcessTable(Protocol):
    """The processes of this machine."""

    def read(self, pid: int) -> ProcessReading | None:
        """Counters of ``pid``; None where it has ended or may not be read."""

    def below(self, pid: int) -> Sequence[int]:
        """Its descendants that live, without itself; none where it is gone."""
