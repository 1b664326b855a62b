"""GPU memory: allocations by call site from a rank's newest snapshot, and curves by category."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.analysis.memory_categories import MemoryOverTime, memory_of_snapshot
from perftui.facts.counters import memory_over_time
from perftui.trace.model import NONE, TraceError

if TYPE_CHECKING:
    from perftui.report.snapshots_and_ncu import MemoryReport
    from perftui.run.reader import RankSnapshot
    from perftui_tui.reading.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class ReadMemory:
    """What a memory snapshot holds, or why it cannot be read."""

    report: MemoryReport | None = None
    over_time: tuple[MemoryOverTime, ...] = ()
    """Each device with a history, the one with the highest peak first."""
    problem: str | None = None


NOTHING = ReadMemory()

UNREADABLE = "the memory snapshot"
"""Begins the message about one that cannot be read."""

Stamp = tuple[Path, int, int]


class AllocationReader:
    """Caches the report of the snapshot that was read last; a newer one replaces its file."""

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled
        self._stamp: Stamp | None = None
        self._result: ReadMemory = NOTHING

    def knows(self, rank: RankSnapshot) -> bool:
        """Whether the newest memory snapshot of ``rank`` has been read, or there is none."""
        stamp = _stamp(rank)
        return stamp is None or stamp == self._stamp

    def of(self, rank: RankSnapshot) -> ReadMemory:
        """The memory that was read for ``rank``; nothing where that was another file."""
        is_read = self._stamp is not None and _stamp(rank) == self._stamp
        return self._result if is_read else NOTHING

    def read(self, rank: RankSnapshot) -> None:
        """Read its newest snapshot, unless that was done. Raises LoadCancelled if nobody wants it
        any more."""
        stamp = _stamp(rank)
        if stamp is None or stamp == self._stamp:
            return
        self._result = read_memory(stamp[0], self._cancelled)
        self._stamp = stamp


def read_memory(
    path: Path, cancelled: Callable[[], bool], progress: Callable[[int, int], None] | None = None
) -> ReadMemory:
    """What the snapshot at ``path`` holds, or why it cannot be read. Raises LoadCancelled if
    ``cancelled`` returned True."""
    from perftui.report.snapshots_and_ncu import report_memory
    from perftui.trace.memory_pickle import load_memory_snapshot

    try:
        snapshot = load_memory_snapshot(path, progress, cancelled)
    except (TraceError, OSError) as error:
        return ReadMemory(problem=f"{UNREADABLE} {path.name} cannot be read: {error}")
    devices = (memory_of_snapshot(snapshot, device) for device in snapshot.devices)
    curves = sorted((use for use in devices if use), key=lambda use: -int(use.level.max()))
    return ReadMemory(report_memory(snapshot), tuple(curves))


def _stamp(rank: RankSnapshot) -> Stamp | None:
    """A value that changes with the newest snapshot; None without one."""
    if not rank.memory_files:
        return None
    path = rank.memory_files[-1]
    try:
        status = path.stat()
    except OSError:
        return None
    return path, status.st_mtime_ns, status.st_size


@dataclass(frozen=True, eq=False)
class MemoryCurve:
    """The memory of one device over some time."""

    memory: MemoryOverTime
    source: str
    """The name of its recording."""

    @property
    def device(self) -> str:
        return "CPU" if self.memory.device == NONE else f"GPU {self.memory.device}"


def memory_curves(snapshot: Snapshot) -> tuple[MemoryCurve, ...]:
    """All curves, the one to show first: a snapshot's before a trace's, as it knows more of what is
    held; a GPU's before the CPU's; that with the highest peak."""
    recorded = snapshot.ask(memory_over_time) or ()
    by_peak = sorted(recorded, key=lambda curve: (curve.device == NONE, -int(curve.level.max())))
    where = "the trace" if snapshot.run is None else "the last profiled window"
    taken = f" ({snapshot.allocations.path.name})" if snapshot.allocations else ""
    return (
        *(MemoryCurve(curve, f"the snapshot's history{taken}") for curve in snapshot.history),
        *(MemoryCurve(curve, where) for curve in by_peak),
    )
