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

COLUMNS = (
    Column("memory.used", "B", "memory used", "of memory.total; /proc/meminfo or memory.current"),
    Column(
        *("memory.available", "B", "memory available"),
        "without swapping, of memory.total; /proc/meminfo",
    ),
    Column(
        *("memory.total", "B", "memory usable"),
        "installed, or the cgroup's limit; /proc/meminfo or memory.max",
    ),
    Column("swap.used", "B", "swap used", "of the machine; /proc/meminfo"),
    Column("swap.in", "B/s", "read from swap", "of the machine; /proc/vmstat"),
)

PAGE_CACHE = Column(
    *("memory.page_cache", "B", "page cache"),
    "pages of files kept in memory, without shared memory; /proc/meminfo or memory.stat",
)

OOM_KILLS = Column(
    *("memory.oom_kills", "count", "killed for memory"),
    "processes killed so far because memory ran out, in the cgroup or on the machine; "
    "memory.events or /proc/vmstat",
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
            column.name: f"not in {column.source.rpartition('; ')[2]}"
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
