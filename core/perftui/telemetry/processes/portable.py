"""Processes by psutil, where there is no ``/proc`` that lists children."""

from __future__ import annotations

import psutil

from perftui.telemetry.processes.reading import ProcessReading


class Portable:
    """The processes of any platform that psutil knows."""

    def read(self, pid: int) -> ProcessReading | None:
        """Counters of ``pid``; None where it has ended or belongs to another user."""
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                times = process.cpu_times()
                switches = process.num_ctx_switches()
                return ProcessReading(
                    pid,
                    process.create_time(),
                    times.user + times.system,
                    process.memory_info().rss,
                    process.num_threads(),
                    switches.voluntary,
                    switches.involuntary,
                    *_transferred(process),
                    major_faults=None,
                )
        except psutil.Error:
            return None

    def below(self, pid: int) -> list[int]:
        """Its descendants, by a walk over all processes."""
        try:
            return [process.pid for process in psutil.Process(pid).children(recursive=True)]
        except psutil.Error:
            return []


def _transferred(process: psutil.Process) -> tuple[float | None, float | None]:
    """Bytes from and to storage so far. macOS has no such counter; a container may forbid it."""
    if not hasattr(process, "io_counters"):
        return None, None
    try:
        counters = process.io_counters()
    except psutil.AccessDenied:
        return None, None
    return counters.read_bytes, counters.write_bytes
