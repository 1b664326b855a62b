"""Curves of memory by category: from a memory snapshot and from the allocations of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perftui.facts.counters import memory_over_time
from perftui.trace.model import NONE

if TYPE_CHECKING:
    from perftui.analysis.memory import MemoryOverTime
    from perftui_tui.reading.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class MemoryCurve:
    """The memory of one device over some time."""

    memory: MemoryOverTime
    source: str
    """What it was recorded by."""

    @property
    def device(self) -> str:
        """What the device is called."""
        return "CPU" if self.memory.device == NONE else f"GPU {self.memory.device}"


def memory_curves(snapshot: Snapshot) -> tuple[MemoryCurve, ...]:
    """All curves, the one to show first: a snapshot's before a trace's, as it knows more of what is
    held; a GPU's before the CPU's; that with the highest peak."""
    recorded = snapshot.ask(memory_over_time) or ()
    by_peak = sorted(recorded, key=lambda one: (one.device == NONE, -int(one.level.max())))
    where = "the trace" if snapshot.run is None else "the last profiled window"
    taken = f" ({snapshot.allocations.path.name})" if snapshot.allocations else ""
    return (
        *(MemoryCurve(one, f"the snapshot's history{taken}") for one in snapshot.history),
        *(MemoryCurve(one, where) for one in by_peak),
    )
