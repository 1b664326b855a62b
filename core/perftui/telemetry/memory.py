"""The machine's memory, or the container's where that is less."""

from __future__ import annotations

from pathlib import Path

import psutil

from perftui.run.journal import Column
from perftui.telemetry.limits import (
    CGROUP_ROOT,
    OWN_CGROUP,
    memory_group,
    memory_of_group,
    usable_memory,
)
from perftui.telemetry.source import Rate

COLUMNS = (
    Column("memory.used", "B", "memory used", "of memory.total; /proc/meminfo or memory.current"),
    Column("memory.available", "B", "memory available", "without swapping; of memory.total"),
    Column("memory.total", "B", "memory usable", "installed, or the cgroup's limit"),
    Column("swap.used", "B", "swap used", "of the machine; /proc/meminfo"),
    Column("swap.in", "B/s", "read from swap", "of the machine; /proc/vmstat"),
)


class MemorySource:
    """Memory in use right now, of what the training may use."""

    columns = COLUMNS

    def __init__(self, root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> None:
        self._group = memory_group(root, own)
        self._usable = usable_memory(root, own)
        self._swapped_in = Rate()

    def sample(self, now: float) -> list[float | None]:
        """Values of ``COLUMNS``; None where a container does not report what it uses."""
        memory = psutil.virtual_memory()
        available = int(memory.available)
        swap = psutil.swap_memory()
        swapped = [swap.used, self._swapped_in.update(swap.sin, now)]
        used = memory_of_group(self._group) if self._group else self._usable - available
        if used is None:
            return [None, None, self._usable, *swapped]
        return [used, max(min(available, self._usable - used), 0), self._usable, *swapped]
