"""Operators and kernels of two traces by name: how often, how long, and what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from perftui.facts.step.step_tables import StepTables


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


def operator_changes(before: StepTables, after: StepTables) -> tuple[WorkChange, ...]:
    """Operators by name, those that changed most first: on the GPU where one was used, else on the
    CPU."""
    found = _changes(_operators(before), _operators(after))
    on_gpu = any(one.before.gpu_ns or one.after.gpu_ns for one in found)
    return _ordered(found, on_gpu=on_gpu)


def kernel_changes(before: StepTables, after: StepTables) -> tuple[WorkChange, ...]:
    """Kernels, copies and sets by name, those that changed most first."""
    return _ordered(_changes(_kernels(before), _kernels(after)), on_gpu=True)


def _operators(tables: StepTables) -> Mapping[str, Amount]:
    table, steps = tables.operators, max(tables.steps, 1)
    columns = (table.calls.tolist(), table.cpu_self.tolist(), table.device_self.tolist())
    return {
        name: Amount(calls / steps, round(own / steps), round(device / steps))
        for name, calls, own, device in zip(table.names, *columns, strict=True)
    }


def _kernels(tables: StepTables) -> Mapping[str, Amount]:
    table, steps = tables.kernels, max(tables.steps, 1)
    found: dict[str, Amount] = {}
    for name, calls, time in zip(
        table.names, table.calls.tolist(), table.total.tolist(), strict=True
    ):
        one = found.get(name, NOTHING)
        found[name] = Amount(one.calls + calls / steps, 0, one.gpu_ns + round(time / steps))
    return found


def _changes(before: Mapping[str, Amount], after: Mapping[str, Amount]) -> list[WorkChange]:
    names = dict.fromkeys((*before, *after))
    return [WorkChange(name, before.get(name, NOTHING), after.get(name, NOTHING)) for name in names]


def _ordered(found: Iterable[WorkChange], *, on_gpu: bool) -> tuple[WorkChange, ...]:
    def changed(one: WorkChange) -> tuple[int, int, str]:
        first, second = (one.gpu_ns, one.cpu_ns) if on_gpu else (one.cpu_ns, one.gpu_ns)
        return -abs(first), -abs(second), one.name

    return tuple(sorted(found, key=changed))
