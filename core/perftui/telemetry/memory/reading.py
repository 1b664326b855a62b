"""What the kernel says of the whole machine's memory."""

from __future__ import annotations

import os
from dataclasses import dataclass

import psutil

from perftui.telemetry.files import PROC, count_of, fields, read_or_empty

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
    """By ``/proc/meminfo`` and ``/proc/vmstat``, or by psutil where there are none."""
    info = fields(read_or_empty(f"{proc}/meminfo"))
    needed = [info.get(name) for name in (b"MemAvailable", b"Cached", b"SwapTotal", b"SwapFree")]
    available, cached, swap, swap_free = needed
    if available is None or cached is None or swap is None or swap_free is None:
        return _by_psutil()
    vmstat = read_or_empty(f"{proc}/vmstat")
    return MemoryReading(
        1024 * available,
        1024 * (swap - swap_free),
        _PAGE * (count_of(b"\npswpin ", vmstat) or 0),
        1024 * max(cached + info.get(b"Buffers", 0) - info.get(b"Shmem", 0), 0),
        count_of(b"\noom_kill ", vmstat),
    )


def _by_psutil() -> MemoryReading:
    swap = psutil.swap_memory()
    return MemoryReading(psutil.virtual_memory().available, swap.used, swap.sin, None, None)
