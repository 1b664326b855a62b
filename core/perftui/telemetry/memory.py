"""The machine's memory, its shared memory, and the memory of a run's processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from perftui.run.journal import Column
from perftui.telemetry.files import (
    PROC,
    count_of,
    exists,
    fields,
    read,
    read_or_empty,
    why_unreadable,
)
from perftui.telemetry.limits import (
    CGROUP_ROOT,
    OWN_CGROUP,
    group_memory,
    groups,
    memory_group,
    usable_memory,
)
from perftui.telemetry.source import Pace, Rate, columns

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class MemoryReading:
    """Bytes at one moment, and counters so far; None where the platform does not count."""

    available: int
    """Without swapping."""
    swap_used: int
    swapped_in: int
    page_cache: int | None
    """Pages of files, without shared memory."""
    oom_kills: int | None


def read_memory(proc: str = PROC) -> MemoryReading:
    """A reading of ``/proc/meminfo`` and ``/proc/vmstat``, or of psutil if there are none."""
    info = fields(read_or_empty(f"{proc}/meminfo"))
    needed = [info.get(name) for name in (b"MemAvailable", b"Cached", b"SwapTotal", b"SwapFree")]
    available, cached, swap, swap_free = needed
    if available is None or cached is None or swap is None or swap_free is None:
        virtual, paging = psutil.virtual_memory(), psutil.swap_memory()
        return MemoryReading(virtual.available, paging.used, paging.sin, None, None)
    vmstat = read_or_empty(f"{proc}/vmstat")
    return MemoryReading(
        1024 * available,
        1024 * (swap - swap_free),
        _PAGE * (count_of(b"\npswpin ", vmstat) or 0),
        1024 * max(cached + info.get(b"Buffers", 0) - info.get(b"Shmem", 0), 0),
        count_of(b"\noom_kill ", vmstat),
    )


MEMORY_COLUMNS = columns("""
memory.used | B | memory used | /proc/meminfo or memory.current |
    Memory in use, out of memory.total, not counting memory that can be reclaimed.
memory.available | B | memory available | /proc/meminfo |
    Memory that can still be allocated without swapping, out of memory.total.
memory.total | B | memory usable | /proc/meminfo or memory.max |
    Installed memory, or the cgroup's limit if that is less.
swap.used | B | swap used | /proc/meminfo | Swap in use on the machine.
swap.in | B/s | read from swap | /proc/vmstat | Bytes a second read back from swap.
""")

PAGE_CACHE, OOM_KILLS = columns("""
memory.page_cache | B | page cache | /proc/meminfo or memory.stat |
    File pages cached in memory, without shared memory.
memory.oom_kills | count | killed for memory | memory.events or /proc/vmstat |
    Processes that the kernel has killed so far because memory ran out, in the cgroup or, without
    one, on the machine.
""")


class MemorySource:
    """Memory now in use, of what the training may use."""

    def __init__(self, root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP, proc: str = PROC) -> None:
        self._proc = proc
        self._group = memory_group(root, own)
        self._usable = usable_memory(root, own)
        self._swapped_in = Rate()
        events = [f"{group}/memory.events" for group in groups(root, own)]
        self._events = next((path for path in events if _kills_of_group(path) is not None), "")
        row = self._row(0.0)
        unknown = [column for column in (PAGE_CACHE, OOM_KILLS) if row[column.name] is None]
        every = (*MEMORY_COLUMNS, PAGE_CACHE, OOM_KILLS)
        self.columns = tuple(column for column in every if column not in unknown)
        self.missing = {column.name: f"not in {column.source}" for column in unknown}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``; None if a container does not report its use."""
        row = self._row(now)
        return [row[column.name] for column in self.columns]

    def _row(self, now: float) -> dict[str, float | None]:
        machine = read_memory(self._proc)
        used: int | None = self._usable - machine.available
        cached = machine.page_cache
        if self._group is not None:
            used, cached = group_memory(self._group) or (None, None)
        left = None if used is None else max(min(machine.available, self._usable - used), 0)
        return {
            "memory.used": used,
            "memory.available": left,
            "memory.total": self._usable,
            "swap.used": machine.swap_used,
            "swap.in": self._swapped_in.update(machine.swapped_in, now),
            PAGE_CACHE.name: cached,
            OOM_KILLS.name: _kills_of_group(self._events) if self._events else machine.oom_kills,
        }


def _kills_of_group(events: str) -> int | None:
    return count_of(b"\noom_kill ", read_or_empty(events))


PLACE = "/dev/shm"  # noqa: S108 - looked at, never written to

SHARED_COLUMNS = columns("""
memory.shm_used | B | shared memory used | statvfs of /dev/shm | Bytes of files in /dev/shm.
memory.shm_total | B | shared memory | statvfs of /dev/shm |
    Size of /dev/shm; in a container 64 MB unless more is requested.
""")


class SharedMemorySource:
    """Size and use of the in-memory file system at ``place``."""

    def __init__(self, place: str = PLACE) -> None:
        self._place = place
        self.columns: tuple[Column, ...] = SHARED_COLUMNS
        self.missing: dict[str, str] = {}
        try:
            os.statvfs(place)
        except OSError as error:
            self.columns = ()
            self.missing = {"memory.shm_used": f"{place}: {error.strerror}"}

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - levels need no clock
        """Values of ``columns``."""
        room = os.statvfs(self._place)
        return [(room.f_blocks - room.f_bfree) * room.f_frsize, room.f_blocks * room.f_frsize]


EVERY_SECONDS, MOST_SHARE = 10.0, 0.001
"""The kernel walks all pages of a process for it (0.7 ms for 50 MB) while it holds the lock for
which an allocation in the training may wait."""

PSS_COLUMNS = columns("""
processes.pss | B | memory of the run | /proc/<pid>/smaps_rollup |
    Memory of all processes of the run; a shared page is split between its processes. Every 10 s or
    less often.
""")


class PssSource:
    """Proportional set size of the processes in ``pids``; that of ``pid`` must be readable, so that
    the others' are expected to be."""

    def __init__(self, pid: int, pids: Callable[[], frozenset[int]], proc: str = PROC) -> None:
        self._pids = pids
        self._proc = proc
        self._pace = Pace(EVERY_SECONDS, MOST_SHARE)
        self._has_begun = False
        subject = pid if exists(f"{proc}/{pid}") else "self"
        why = why_unreadable(f"{proc}/{subject}/smaps_rollup")
        self.columns = () if why else PSS_COLUMNS
        self.missing = {PSS_COLUMNS[0].name: f"smaps_rollup: {why}"} if why else {}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``; None except every few seconds, and while a process denies it."""
        if not self._has_begun:
            # The first reading would be of a training that only begins, and remain for long.
            self._has_begun = True
            self._pace.spent(now, 0.0)
        pids = self._pids()
        if not pids or not self._pace.is_due(now):
            return [None] * len(self.columns)
        with self._pace.reading(now):
            return [self._sum(pids)]

    def _sum(self, pids: frozenset[int]) -> float | None:
        sizes = []
        for pid in pids:
            try:
                size = fields(read(f"{self._proc}/{pid}/smaps_rollup")).get(b"Pss")
            except PermissionError:
                return None
            except OSError:
                # It has ended.
                continue
            if size is not None:
                sizes.append(1024 * size)
        return sum(sizes) if sizes else None
