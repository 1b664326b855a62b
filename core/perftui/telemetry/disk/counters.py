"""What the kernel counts of each disk, and what follows from two such readings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import psutil

from perftui.telemetry.files import PROC, numbers, read_or_empty

_SECTOR = 512
"""Bytes that ``/proc/diskstats`` counts as one, whatever the disk's own sectors are."""


class DiskCounters(NamedTuple):
    """Of one disk so far; times in ms."""

    reads: int
    read_bytes: int
    read_time: int
    writes: int
    written_bytes: int
    write_time: int
    busy: int
    """Time with a request in flight."""
    weighted: int
    """Time of all requests, those in flight included (the kernel's ``time_in_queue``)."""


class DiskUse(NamedTuple):
    """What disks have done between two readings."""

    read: float
    """B/s, as is ``write``."""
    write: float
    read_operations: float
    """1/s, as are ``write_operations``."""
    write_operations: float
    utilization: float
    """% of the time with a request in flight."""
    queue: float
    """Mean requests in flight or waiting."""
    wait: float | None
    """ms from a request's start to its end, of those that have ended; None where none has."""


def read_disks(proc: str = PROC) -> dict[str, DiskCounters]:
    """Counters of all disks, partitions and layers over them, by name."""
    return parse(read_or_empty(f"{proc}/diskstats"))


def parse(diskstats: bytes) -> dict[str, DiskCounters]:
    """Counters by name, of a ``/proc/diskstats``; lines that are no such are left out.

    Its fields are those of the kernel's Documentation/admin-guide/iostats.rst.
    """
    found = {}
    for line in diskstats.splitlines():
        words = line.split()
        counts = numbers(words[3:14])
        if counts is not None and len(counts) == 11:
            reads, _, sectors, reading, writes, _, written, writing, _, busy, weighted = counts
            found[words[2].decode("utf-8", "replace")] = DiskCounters(
                *(reads, sectors * _SECTOR, reading),
                *(writes, written * _SECTOR, writing),
                *(busy, weighted),
            )
    return found


def portable_disks() -> dict[str, DiskCounters]:
    """Bytes and requests by psutil, for a platform without ``/proc/diskstats``; times are 0."""
    return {
        name: DiskCounters(
            *(one.read_count, one.read_bytes, 0), *(one.write_count, one.write_bytes, 0), 0, 0
        )
        for name, one in (psutil.disk_io_counters(perdisk=True) or {}).items()
    }


def use(pairs: Iterable[tuple[DiskCounters, DiskCounters]], seconds: float) -> DiskUse | None:
    """What disks did over ``seconds``, by their counters before and after.

    All together, but ``utilization`` is that of the busiest. A disk whose counters fell was
    replaced, and is left out; None without any.
    """
    changes = [
        DiskCounters(*(new - old for old, new in zip(*pair, strict=True)))
        for pair in pairs
        if all(new >= old for old, new in zip(*pair, strict=True))
    ]
    if not changes or seconds <= 0:
        return None
    total = DiskCounters(*map(sum, zip(*changes, strict=True)))
    requests = total.reads + total.writes
    return DiskUse(
        read=total.read_bytes / seconds,
        write=total.written_bytes / seconds,
        read_operations=total.reads / seconds,
        write_operations=total.writes / seconds,
        # Milliseconds a second are tenths of a per cent.
        utilization=min(100.0, max(one.busy for one in changes) / seconds / 10),
        queue=total.weighted / seconds / 1000,
        wait=(total.read_time + total.write_time) / requests if requests else None,
    )
