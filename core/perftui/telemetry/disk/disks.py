"""All disks of the machine together."""

from __future__ import annotations

from perftui.run.journal import Column
from perftui.telemetry.devices import RealDevices
from perftui.telemetry.disk.counters import DiskCounters, portable_disks, read_disks, use
from perftui.telemetry.files import PROC, SYS

_DISKSTATS = "/proc/diskstats"

COUNTED = (
    Column(
        *("disk.read", "B/s", "disk read", _DISKSTATS),
        "Bytes a second read from all disks of the machine.",
    ),
    Column(
        *("disk.write", "B/s", "disk write", _DISKSTATS),
        "Bytes a second written to all disks of the machine.",
    ),
    Column(
        *("disk.read_operations", "1/s", "disk reads", _DISKSTATS),
        "Read requests a second, all disks of the machine.",
    ),
    Column(
        *("disk.write_operations", "1/s", "disk writes", _DISKSTATS),
        "Write requests a second, all disks of the machine.",
    ),
)

TIMED = (
    Column(
        *("disk.utilization", "%", "busiest disk", _DISKSTATS),
        "Share of the time in which the busiest disk had a request in flight.",
    ),
    Column(
        *("disk.queue", "count", "disk requests in flight", _DISKSTATS),
        "Mean number of requests to all disks in flight or waiting.",
    ),
    Column(
        *("disk.await", "ms", "time of a disk request", _DISKSTATS),
        "Mean time from the start to the end of a request, queueing included, over all disks.",
    ),
)

COLUMNS = (*COUNTED, *TIMED)


class DiskSource:
    """Rates over all disks; no columns where the platform counts none."""

    def __init__(self, proc: str = PROC, sys: str = SYS) -> None:
        self._proc = proc
        self._real = RealDevices(f"{sys}/block")
        self._is_timed = bool(read_disks(proc))
        self._before = self._read()
        self._at = float("inf")
        self.columns = () if not self._before else COLUMNS if self._is_timed else COUNTED
        untimed = ", ".join(column.name for column in TIMED)
        self.missing = {} if self._is_timed else {untimed: f"nothing in {proc}/diskstats"}
        if not self.columns:
            self.missing["disk.read, disk.write"] = "no disk has counters"

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``."""
        if not self.columns:
            return []
        before, self._before = self._before, self._read()
        seconds, self._at = now - self._at, now
        pairs = [(before[name], one) for name, one in self._before.items() if name in before]
        done = use(pairs, seconds)
        if done is None:
            return [None] * len(self.columns)
        row = [done.read, done.write, done.read_operations, done.write_operations]
        return [*row, *((done.utilization, done.queue, done.wait) if self._is_timed else ())]

    def _read(self) -> dict[str, DiskCounters]:
        disks = read_disks(self._proc) if self._is_timed else portable_disks()
        return {name: disks[name] for name in self._real.among(disks)}
