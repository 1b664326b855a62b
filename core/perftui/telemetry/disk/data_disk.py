"""The disk that holds the data set."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.run.journal import Column
from perftui.telemetry.disk.counters import DiskCounters, read_disks, use
from perftui.telemetry.disk.data_place import DataPlace, Place
from perftui.telemetry.disk.device import counted_disk, described
from perftui.telemetry.files import PROC, SYS

_DISKSTATS = "/proc/diskstats"

COLUMNS = (
    Column(
        *("data_disk.read", "B/s", "read from the data's disk", _DISKSTATS),
        "Bytes a second read from the disk that holds the data set.",
    ),
    Column(
        *("data_disk.write", "B/s", "written to the data's disk", _DISKSTATS),
        "Bytes a second written to the disk that holds the data set.",
    ),
    Column(
        *("data_disk.utilization", "%", "data's disk busy", _DISKSTATS),
        "Share of the time in which the disk that holds the data set had a request in flight.",
    ),
    Column(
        *("data_disk.await", "ms", "time of a request to the data's disk", _DISKSTATS),
        "Mean time from the start to the end of a request to the disk that holds the data set.",
    ),
    Column(
        *("data_disk.queue", "count", "requests to the data's disk in flight", _DISKSTATS),
        "Mean number of requests to the disk that holds the data set, in flight or waiting.",
    ),
)


@dataclass(frozen=True)
class DataDisk:
    """Where the data set lies."""

    disk: str | None
    """The disk as the system names it, None where the kernel counts none for this file system."""
    place: str
    """Directory on which the file system is mounted."""
    file_system: str
    """Its kind, such as ``ext4``."""
    found_by: str


class DataDiskSource:
    """Rates of the disk under ``place``; None while it is on none that the kernel counts."""

    def __init__(self, place: DataPlace, proc: str = PROC, sys: str = SYS) -> None:
        self._place = place
        self._proc = proc
        self._sys = sys
        self._known: Place | None = None
        self._before: DiskCounters | None = None
        self._at = float("inf")
        self._disk = ""
        self.found: DataDisk | None = None
        """Where the data lies, once that is known."""
        is_counted = bool(read_disks(proc))
        self.columns = COLUMNS if is_counted else ()
        self.missing = {} if is_counted else {"data_disk": f"nothing in {proc}/diskstats"}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``."""
        if not self.columns:
            return []
        disks = read_disks(self._proc)
        self._follow(self._place.search(now), disks)
        before, self._before = self._before, disks.get(self._disk)
        seconds, self._at = now - self._at, now
        pairs = [(before, self._before)] if before and self._before else []
        done = use(pairs, seconds)
        if done is None:
            return [None] * len(self.columns)
        return [done.read, done.write, done.utilization, done.wait, done.queue]

    def _follow(self, place: Place | None, disks: dict[str, DiskCounters]) -> None:
        if place is None or place == self._known:
            return
        self._known = place
        disk = counted_disk(place.mount, disks, self._sys) or ""
        if disk != self._disk:
            self._disk, self._before = disk, None
        name = described(disk, self._sys) if disk else None
        self.found = DataDisk(name, place.mount.point, place.mount.kind, place.found_by)
