"""How much of the device time of operators runs on tensor cores, by the names of their kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis.grouping import sums
from perftui.analysis.kernels.tensor_cores import TensorCores, tensor_cores
from perftui.analysis.ops.calls import Calls
from perftui.trace.categories import KERNEL
from perftui.trace.model import NONE, Int64, Trace

_USES = tuple(TensorCores)


@dataclass(frozen=True, eq=False)
class TensorCoreTime:
    """Device time that groups of calls launched themselves, ns, by what names of kernels show."""

    used: Int64
    """On tensor cores."""
    unused: Int64
    """In products on the ordinary units."""
    unknown: Int64
    """In kernels that may use them, whose names do not show it."""
    own: Int64
    """All of it: with the work that they do not do."""


def tensor_core_time(trace: Trace, calls: Calls, names: Sequence[str]) -> TensorCoreTime:
    """The time of the groups of ``calls``, which are those of ``trace``, that have these names."""
    linked = calls.launchers != NONE
    rows, group = calls.links.activity[linked], calls.trace.name[calls.launchers[linked]]
    use, lasting = _uses(trace, rows), trace.duration[rows]
    place = {label: number for number, label in enumerate(calls.labels)}
    wanted = np.array([place[name] for name in names], dtype=np.int64)

    def summed(*chosen: TensorCores) -> Int64:
        among = np.isin(use, [_USES.index(one) for one in chosen])
        return sums(group[among], lasting[among], len(calls.labels))[wanted]

    return TensorCoreTime(
        summed(TensorCores.YES),
        summed(TensorCores.NO),
        summed(TensorCores.UNKNOWN),
        summed(*_USES),
    )


def _uses(trace: Trace, rows: Int64) -> Int64:
    """Index into ``_USES`` of each of ``rows``; copies and sets use none."""
    of_name = np.full(len(trace.names), _USES.index(TensorCores.NONE), dtype=np.int64)
    kernels = rows[trace.in_category(KERNEL)[rows]]
    for number in np.unique(trace.name[kernels]).tolist():
        of_name[number] = _USES.index(tensor_cores(trace.names[number]))
    return of_name[trace.name[rows]]
