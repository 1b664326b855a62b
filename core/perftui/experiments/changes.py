"""Figures, operators and kernels on both sides of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap

from perftui.analysis.memory import MemoryOverTime
from perftui.analysis.model import KernelTable, OpTable
from perftui.facts.cpu.machine import machine_use
from perftui.facts.fact import Facts
from perftui.facts.gpu.memory import gpu_memory
from perftui.facts.memory_over_time import memory_over_time
from perftui.facts.rounding import whole_quotients
from perftui.facts.samples import finite, samples
from perftui.facts.step.step_tables import StepTables
from perftui.facts.step.steps import batches_ready, wait_p95
from perftui.format import several
from perftui.trace.model import NONE, Int64

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


@dataclass(frozen=True)
class Amount:
    """Time and calls of one name in a mean step, or in a whole trace."""

    calls: float
    cpu_ns: int
    """Self time on the CPU; 0 for a kernel."""
    gpu_ns: int
    """Of an operator that of the kernels it launched itself."""


NOTHING = Amount(0, 0, 0)


@dataclass(frozen=True)
class WorkChange:
    """One operator or kernel on both sides; ``NOTHING`` if a side does not have it."""

    name: str
    before: Amount
    after: Amount

    @property
    def cpu_ns(self) -> int:
        """Self time that was added, below 0 where it was saved."""
        return self.after.cpu_ns - self.before.cpu_ns

    @property
    def gpu_ns(self) -> int:
        """GPU time that was added."""
        return self.after.gpu_ns - self.before.gpu_ns


@dataclass(frozen=True)
class Whole:
    """What the rows of a table are parts of, ns in a mean step or in a whole trace.

    The times of all rows, less what of them was counted twice, are the whole, on each side and so
    of the differences.
    """

    what: str
    before_ns: int
    after_ns: int
    twice_before_ns: int = 0
    """Of kernels that ran side by side on one device."""
    twice_after_ns: int = 0


def operator_changes(before: StepTables, after: StepTables) -> tuple[WorkChange, ...]:
    """Operators by name, those that changed most first: on the GPU where one was used, else on the
    CPU."""
    return shaped_changes(before, after, (before.operators, after.operators))


def shaped_changes(
    before: StepTables, after: StepTables, tables: tuple[OpTable, OpTable]
) -> tuple[WorkChange, ...]:
    """The same of ``tables``, whose rows are operators in whatever groups."""
    first, second = (
        _operators(table, max(each.steps, 1))
        for table, each in zip(tables, (before, after), strict=True)
    )
    found = _changes(first, second)
    on_gpu = any(one.before.gpu_ns or one.after.gpu_ns for one in found)
    return _ordered(found, on_gpu=on_gpu)


def kernel_changes(before: StepTables, after: StepTables) -> tuple[WorkChange, ...]:
    """Kernels, copies and sets by name, those that changed most first."""
    first, second = (_kernels(each.kernels, max(each.steps, 1)) for each in (before, after))
    return _ordered(_changes(first, second), on_gpu=True)


def own_time(changes: Iterable[WorkChange]) -> Whole:
    """What operators are parts of: their own times, which sum to it in every thread."""
    listed = tuple(changes)
    return Whole(
        "time in operators, all threads",
        sum(one.before.cpu_ns for one in listed),
        sum(one.after.cpu_ns for one in listed),
    )


def busy_time(before: StepTables, after: StepTables, changes: Iterable[WorkChange]) -> Whole:
    """What kernels, copies and sets are parts of."""
    listed = tuple(changes)
    first, second = (each.busy // max(each.steps, 1) for each in (before, after))
    return Whole(
        "GPU busy",
        first,
        second,
        sum(one.before.gpu_ns for one in listed) - first,
        sum(one.after.gpu_ns for one in listed) - second,
    )


def split(
    changes: Sequence[WorkChange], most: int
) -> tuple[Sequence[WorkChange], WorkChange | None]:
    """The first ``most`` rows, and the sum of the others, where there are any."""
    listed, rest = changes[:most], changes[most:]
    if not rest:
        return listed, None
    before, after = _sum(one.before for one in rest), _sum(one.after for one in rest)
    return listed, WorkChange(several(len(rest), "other"), before, after)


def _sum(amounts: Iterable[Amount]) -> Amount:
    calls, cpu, gpu = zip(*((one.calls, one.cpu_ns, one.gpu_ns) for one in amounts), strict=True)
    return Amount(sum(calls), sum(cpu), sum(gpu))


def _operators(table: OpTable, steps: int) -> Mapping[str, Amount]:
    columns = (_of_step(column, steps) for column in (table.cpu_self, table.device_self))
    calls = (table.calls / steps).tolist()
    return dict(zip(table.names, starmap(Amount, zip(calls, *columns, strict=True)), strict=True))


def _kernels(table: KernelTable, steps: int) -> Mapping[str, Amount]:
    found: dict[str, Amount] = {}
    calls, times = (table.calls / steps).tolist(), _of_step(table.total, steps)
    for name, count, time in zip(table.names, calls, times, strict=True):
        one = found.get(name, NOTHING)
        found[name] = Amount(one.calls + count, 0, one.gpu_ns + time)
    return found


def _of_step(column: Int64, steps: int) -> list[int]:
    """Whole ns of a mean step, which sum to that of the sum."""
    return whole_quotients(column.tolist(), steps)


def _changes(before: Mapping[str, Amount], after: Mapping[str, Amount]) -> list[WorkChange]:
    names = dict.fromkeys((*before, *after))
    return [WorkChange(name, before.get(name, NOTHING), after.get(name, NOTHING)) for name in names]


def _ordered(found: Iterable[WorkChange], *, on_gpu: bool) -> tuple[WorkChange, ...]:
    def changed(one: WorkChange) -> tuple[int, int, str]:
        first, second = (one.gpu_ns, one.cpu_ns) if on_gpu else (one.cpu_ns, one.gpu_ns)
        return -abs(first), -abs(second), one.name

    return tuple(sorted(found, key=changed))
