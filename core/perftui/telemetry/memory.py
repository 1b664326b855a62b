"""The machine's memory, or the container's where that is less."""

from __future__ import annotations

import psutil

from perftui.run.journal import Column
from perftui.telemetry.limits import usable_memory

COLUMNS = (
    Column("memory.used", "B", "memory used", "total less available; /proc/meminfo"),
    Column("memory.available", "B", "memory available", "without swapping; MemAvailable"),
    Column("memory.total", "B", "memory usable", "installed, or the cgroup's limit"),
    Column("swap.used", "B", "swap used", "/proc/meminfo"),
)


class MemorySource:
    """Memory in use right now."""

    columns = COLUMNS

    def __init__(self) -> None:
        self._usable = float(usable_memory())

    def sample(self, now: float) -> list[float | None]:  # noqa: ARG002 - a level needs no clock
        """Values of ``COLUMNS``."""
        memory = psutil.virtual_memory()
        return [
            float(memory.total - memory.available),
            float(memory.available),
            self._usable,
            float(psutil.swap_memory().used),
        ]
