"""The machine's memory, or the container's where that is less."""

from __future__ import annotations

from pathlib import Path

from perftui.run.journal import Column
from perftui.telemetry.files import PROC, count_of, read_or_empty
from perftui.telemetry.limits import (
    CGROUP_ROOT,
    OWN_CGROUP,
    group_memory,
    groups,
    memory_group,
    usable_memory,
)
from perftui.telemetry.memory.reading import read_memory
from perftui.telemetry.source import Rate

_MEMINFO, _VMSTAT = "/proc/meminfo", "/proc/vmstat"

COLUMNS = (
    Column(
        *("memory.used", "B", "memory used", f"{_MEMINFO} or memory.current"),
        "Memory in use, out of memory.total, not counting memory that can be reclaimed.",
    ),
    Column(
        *("memory.available", "B", "memory available", _MEMINFO),
        "Memory that can still be allocated without swapping, out of memory.total.",
    ),
    Column(
        *("memory.total", "B", "memory usable", f"{_MEMINFO} or memory.max"),
        "Installed memory, or the cgroup's limit if that is less.",
    ),
    Column("swap.used", "B", "swap used", _MEMINFO, "Swap in use on the machine."),
    Column("swap.in", "B/s", "read from swap", _VMSTAT, "Bytes a second read back from swap."),
)

PAGE_CACHE = Column(
    *("memory.page_cache", "B", "page cache", f"{_MEMINFO} or memory.stat"),
    "File pages cached in memory, without shared memory.",
)

OOM_KILLS = Column(
    *("memory.oom_kills", "count", "killed for memory", f"memory.events or {_VMSTAT}"),
    "Processes that the kernel has killed so far because memory ran out, in the cgroup or, without "
    "one, on the machine.",
)


class MemorySource:
    """Memory in use right now, of what the training may use."""

    def __init__(self, root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP, proc: str = PROC) -> None:
        self._proc = proc
        self._group = memory_group(root, own)
        self._usable = usable_memory(root, own)
        self._swapped_in = Rate()
        events = [f"{group}/memory.events" for group in groups(root, own)]
        self._events = next((path for path in events if _kills_of_group(path) is not None), "")
        row = self._row(0.0)
        self.columns = (
            *COLUMNS,
            *(column for column in (PAGE_CACHE, OOM_KILLS) if row[column.name] is not None),
        )
        self.missing = {
            column.name: f"not in {column.source}"
            for column in (PAGE_CACHE, OOM_KILLS)
            if column not in self.columns
        }

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``; None where a container does not report what it uses."""
        row = self._row(now)
        return [row[column.name] for column in self.columns]

    def _row(self, now: float) -> dict[str, float | None]:
        machine = read_memory(self._proc)
        used: int | None = self._usable - machine.available
        cached = machine.page_cache
        if self._group is not None:
            held = group_memory(self._group)
            used, cached = (held.used, held.page_cache) if held else (None, None)
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
