"""Memory, data loader and use of the machine on both sides of a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perftui.analysis.memory.over_time import MemoryOverTime
from perftui.facts.cpu.machine import machine_use
from perftui.facts.fact import Facts
from perftui.facts.gpu.memory import gpu_memory
from perftui.facts.memory_over_time import memory_over_time
from perftui.facts.samples import finite, samples
from perftui.facts.step.steps import batches_ready, wait_p95
from perftui.trace.model import NONE

MEMORY, LOADER, MACHINE = "memory", "data loader", "machine"
BYTES, NS, SHARE, COUNT, CORES = "B", "ns", "share", "count", "cores"


@dataclass(frozen=True)
class FigureChange:
    """One figure on both sides; None stands for a side where it is not known."""

    group: str
    """``MEMORY``, ``LOADER`` or ``MACHINE``."""
    name: str
    unit: str
    """``BYTES``, ``NS``, ``SHARE`` (0 to 1), ``COUNT`` or ``CORES``."""
    before: float | None
    after: float | None

    @property
    def is_of_step(self) -> bool:
        """Whether less of it is better wherever it changes, as of time and memory."""
        return self.unit in (BYTES, NS)


def figure_changes(before: Facts, after: Facts) -> tuple[FigureChange, ...]:
    """The figures that are known of one side at least; memory by category only where of both."""
    sides = dict(_figures(before)), dict(_figures(after))
    names = dict.fromkeys((*sides[0], *sides[1]))
    return (
        *(FigureChange(*key, sides[0].get(key), sides[1].get(key)) for key in names),
        *_by_category(before, after),
    )


def _figures(side: Facts) -> Iterator[tuple[tuple[str, str, str], float]]:
    use, memory = machine_use(side), gpu_memory(side)
    resident = finite(samples(side), "processes.rss")
    found = (
        (MEMORY, "peak allocated", BYTES, memory.peak_allocated if memory else None),
        (MEMORY, "peak reserved", BYTES, memory.peak_reserved if memory else None),
        (MEMORY, "peak host RSS", BYTES, int(resident.max()) if len(resident) else None),
        (LOADER, "wait, p95", NS, wait_p95(side)),
        (LOADER, "batches ready", COUNT, batches_ready(side)),
        (LOADER, "worker cores", CORES, use.workers_cores),
        (MACHINE, "CPU cores used", CORES, use.tree_cores),
        (MACHINE, "GPU busy", SHARE, use.gpu_busy),
    )
    yield from (
        ((group, name, unit), value) for group, name, unit, value in found if value is not None
    )


def _by_category(before: Facts, after: Facts) -> Iterator[FigureChange]:
    """What each category held when a device held most: together that peak."""
    first, second = (_devices(side) for side in (before, after))
    for device in first.keys() & second.keys():
        name = "CPU" if device == NONE else f"GPU {device}"
        sides = [
            {use.category: use.bytes for use in each[device].at_peak()} for each in (first, second)
        ]
        for category in sorted({*sides[0], *sides[1]}):
            held = (side.get(category, 0) for side in sides)
            yield FigureChange(MEMORY, f"{name} {category.label}", BYTES, *held)


def _devices(side: Facts) -> dict[int, MemoryOverTime]:
    known = memory_over_time.or_none(side) or ()
    return {one.device: one for one in known if one.has_categories}
