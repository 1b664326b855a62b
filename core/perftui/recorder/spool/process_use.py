"""What a data-loader worker has used so far, as the kernel counts it; on Linux only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")

TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class ProcessUse(NamedTuple):
    """Counters of one process, in the order of the last columns of ``WORKER_COLUMNS``."""

    cpu: int
    """CPU time of the process's main thread, ns."""
    delayed: int
    """Time in which that waited for a core, ns."""
    others: int
    """CPU time of its other threads, ns."""
    threads: int
    """How many there are now."""
    read: int
    """Bytes from storage."""
    asked: int
    """Bytes from storage or from memory."""
    reads: int
    """Calls that asked for those."""
    faults: int
    """Major page faults."""


def process_use(pid: int, root: Path = PROC) -> ProcessUse | None:
    """The counters now; None where the process has ended, or the kernel has none."""
    here = root / str(pid)
    try:
        cpu, delayed, _ = map(int, (here / "schedstat").read_text().split())
        # The name of the process stands in parentheses and may hold anything.
        fields = (here / "stat").read_text().rpartition(")")[2].split()
        counters = dict(line.split(": ") for line in (here / "io").read_text().splitlines())
        faults, used, threads = int(fields[9]), int(fields[11]) + int(fields[12]), int(fields[17])
        read, asked, reads = (int(counters[name]) for name in ("read_bytes", "rchar", "syscr"))
    except (OSError, ValueError, IndexError, KeyError):
        return None
    return ProcessUse(cpu, delayed, max(used * TICK - cpu, 0), threads, read, asked, reads, faults)
