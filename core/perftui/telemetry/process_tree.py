"""Finds the processes of a run and reads the counters of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil

PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessReading:
    """Counters of one process at one moment; None where the platform does not count."""

    cpu: float
    """Seconds of user and system time so far."""
    rss: float
    threads: float
    voluntary: float
    involuntary: float
    read: float | None
    written: float | None


def find(pid: int) -> psutil.Process | None:
    """The process ``pid``, None where it is gone."""
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def tree(main: psutil.Process) -> list[psutil.Process]:
    """``main`` and its descendants; empty once it is gone (also if its pid is used again)."""
    try:
        if not main.is_running():
            return []
        if not (PROC / str(main.pid) / "task" / str(main.pid) / "children").exists():
            return [main, *main.children(recursive=True)]
    except psutil.Error:
        return []
    below = [process for pid in _descendants(main.pid) if (process := find(pid)) is not None]
    return [main, *below]


def _descendants(pid: int) -> list[int]:
    """Below ``pid``, by the kernel's own lists: these cost by the size of the tree, while a walk
    over all processes costs by the size of the machine (17 us against 1 ms and more)."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for task in (PROC / str(pid) / "task").iterdir():
            children += map(int, (task / "children").read_text().split())
    except OSError:
        # The process or the thread ended while it was read.
        return children
    return children


def read(process: psutil.Process) -> ProcessReading | None:
    """The readings of ``process``; None where it has ended or belongs to another user."""
    try:
        with process.oneshot():
            times = process.cpu_times()
            switches = process.num_ctx_switches()
            transferred = _transferred(process)
            return ProcessReading(
                times.user + times.system,
                process.memory_info().rss,
                process.num_threads(),
                switches.voluntary,
                switches.involuntary,
                *transferred,
            )
    except psutil.Error:
        return None


def _transferred(process: psutil.Process) -> tuple[float | None, float | None]:
    """Bytes from and to storage so far. macOS has no such counter; a container may forbid it."""
    if not hasattr(process, "io_counters"):
        return None, None
    try:
        counters = process.io_counters()
    except psutil.AccessDenied:
        return None, None
    return counters.read_bytes, counters.write_bytes
