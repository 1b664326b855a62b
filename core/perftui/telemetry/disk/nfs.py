"""What the NFS client does for the mount that holds the data set."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.run.journal import Column
from perftui.telemetry.disk.data_place import DataPlace
from perftui.telemetry.files import PROC, numbers, read_or_empty
from perftui.telemetry.mounts import NFS, unescaped
from perftui.telemetry.source import Rate

_MOUNTSTATS = "/proc/self/mountstats"

COLUMNS = (
    Column(
        *("nfs.read", "B/s", "read by NFS", _MOUNTSTATS),
        "Bytes a second from the server of the NFS mount that holds the data set.",
    ),
    Column(
        *("nfs.write", "B/s", "written by NFS", _MOUNTSTATS),
        "Bytes a second to the server of the NFS mount that holds the data set.",
    ),
    Column(
        *("nfs.await", "ms", "time of an NFS request", _MOUNTSTATS),
        "Mean time from the start to the end of a read or write of the NFS mount that holds the "
        "data set.",
    ),
)


@dataclass(frozen=True)
class NfsCounters:
    """Of one mount so far."""

    read: int
    """Bytes from the server."""
    written: int
    requests: int
    """Reads and writes that have ended."""
    time: int
    """ms from the start of each to its end."""


class NfsSource:
    """Rates of the mount at ``place``; no columns where nothing is mounted by NFS, and None where
    the data lies elsewhere."""

    def __init__(self, place: DataPlace, proc: str = PROC) -> None:
        self._place = place
        self._path = f"{proc}/self/mountstats"
        self._mount = ""
        self._begin()
        is_used = bool(parse(read_or_empty(self._path)))
        self.columns = COLUMNS if is_used else ()
        self.missing = {} if is_used else {"nfs": "no NFS mount"}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``."""
        place = self._place.search(now)
        if not self.columns or place is None or place.mount.kind not in NFS:
            return [None] * len(self.columns)
        if place.mount.point != self._mount:
            self._mount = place.mount.point
            self._begin()
        found = parse(read_or_empty(self._path)).get(self._mount)
        read, written, requests, time = (
            rate.update(value, now)
            for rate, value in zip(
                self._rates,
                (found.read, found.written, found.requests, found.time) if found else [None] * 4,
                strict=True,
            )
        )
        return [read, written, time / requests if time is not None and requests else None]

    def _begin(self) -> None:
        self._rates = [Rate() for _ in range(4)]


def parse(mountstats: bytes) -> dict[str, NfsCounters]:
    """Counters by directory, of a ``/proc/<pid>/mountstats``; of several mounts on one the last.

    ``bytes:`` counts those from and to the server fifth and sixth, an operation its requests first
    and their whole time eighth (net/sunrpc/stats.c and fs/nfs/iostat.h of the kernel).
    """
    found = {}
    for block in b"\n".join((b"", mountstats)).split(b"\ndevice ")[1:]:
        head, *lines = block.splitlines() or [b""]
        words = head.split()
        if len(words) < 7 or words[5] != b"fstype" or words[6] not in (b"nfs", b"nfs4"):
            continue
        counts = {}
        for line in lines:
            name, _, rest = line.strip().partition(b":")
            if name in (b"bytes", b"READ", b"WRITE"):
                counts[name] = numbers(rest.split()[:8])
        sizes, read, write = (counts.get(name) for name in (b"bytes", b"READ", b"WRITE"))
        if sizes and read and write and min(len(sizes), len(read), len(write)) == 8:
            place = unescaped(words[3])
            found[place] = NfsCounters(sizes[4], sizes[5], read[0] + write[0], read[7] + write[7])
    return found
