"""The machine's processors."""

from __future__ import annotations

from typing import Any

import psutil

from perftui.run.journal import Column

COLUMNS = (
    Column("cpu.utilization", "%", "CPU", "all cores, 100 % is all of them busy; /proc/stat"),
    Column("cpu.core_max", "%", "busiest core", "the busiest single core; /proc/stat"),
    Column("cpu.iowait", "%", "I/O wait", "idle with I/O outstanding; /proc/stat, Linux only"),
    Column("cpu.cores", "count", "cores", "switched on, of the whole machine; /proc/stat"),
    Column("cpu.load1", "", "load", "runnable and blocked tasks, mean of a minute; getloadavg"),
)


class CpuSource:
    """Busy shares of all cores since the last sample."""

    columns = COLUMNS

    def __init__(self) -> None:
        self._before: list[Any] = []

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - shares need no clock
        """Values of ``COLUMNS``; the shares are None at first, and where no time has passed."""
        times = psutil.cpu_times(percpu=True)
        before, self._before = self._before, times
        load = psutil.getloadavg()[0]
        if len(times) != len(before):
            # The first sample, or a core was switched on or off.
            return [None, None, None, len(times), load]
        spent = [_spent(old, new) for old, new in zip(before, times, strict=True)]
        total = sum(all_ for all_, _, _ in spent)
        if total <= 0:
            return [None, None, None, len(times), load]
        cores = [100.0 * busy / all_ for all_, busy, _ in spent if all_ > 0]
        iowait = 100.0 * sum(wait for _, _, wait in spent) / total
        return [
            100.0 * sum(busy for _, busy, _ in spent) / total,
            max(cores),
            iowait if hasattr(times[0], "iowait") else None,
            len(times),
            load,
        ]


def _spent(before: object, after: object) -> tuple[float, float, float]:
    """(all, busy, iowait) seconds of one core between two readings.

    Guest time is part of user time already. iowait may fall between two readings by the kernel's
    own account (proc_stat(5)), so no difference is taken below 0.
    """
    fields = [name for name in getattr(after, "_fields", ()) if not name.startswith("guest")]
    change = {name: max(0.0, getattr(after, name) - getattr(before, name)) for name in fields}
    waiting = change.get("iowait", 0.0)
    total = sum(change.values())
    return total, total - change["idle"] - waiting, waiting
