"""How each kernel was launched, and what limits it by ncu's measurements."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perftui.analysis.kernels.names import base, canonical, without_arguments
from perftui.analysis.model import KernelTable
from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import KERNEL, Trace
from perftui.trace.ncu import KernelMetrics, Launch

LATENCY_BELOW = 60.0
"""Percent of the peak: a kernel below it in both compute and memory throughput waits for latencies.
``latency_bound_threshold`` of the rule in NVIDIA's section GPU Speed Of Light Throughput
(``SpeedOfLight.py`` in Nsight Compute)."""

BALANCED_WITHIN = 10.0
"""Percentage points within which two throughputs limit together. ``balanced_threshold`` there."""


class Limit(str, enum.Enum):
    """What limits a kernel."""

    COMPUTE = "compute"
    MEMORY = "memory"
    BOTH = "compute and memory"
    LATENCY = "latency"


@dataclass(frozen=True)
class Figures:
    """Per cent of the peak rates, and of the warps that fit: means over the launches, weighted by
    their durations. None if ncu did not measure it."""

    launches: int
    """Launches that ncu measured."""
    compute: float | None
    memory: float | None
    occupancy: float | None
    limit: Limit | None
    """None if ncu measured neither throughput, or only one that is below the threshold."""


@dataclass(frozen=True)
class MeasuredKernel(Figures):
    """ncu's measurements of the launches of one kernel."""

    name: str
    """The kernel's name in its first spelling in the report."""
    duration: float | None
    """Mean ns of a launch under ncu."""
    total: float | None
    """ns of all launches under ncu; None if unknown for any."""


@dataclass(frozen=True)
class JoinedKernel(MeasuredKernel):
    """One kernel of the trace with ncu's measurements; ``name`` is spelled as in the trace."""

    row: int
    """Row of the kernel table."""
    duration_ratio: float | None
    """``duration`` over the mean in the trace. Far from 1 if ncu's fixed clocks and cold caches, or
    other sizes, make its figures mean little for the traced run."""


@dataclass(frozen=True)
class Joined:
    """The join of a kernel table with a report of ncu."""

    kernels: tuple[JoinedKernel, ...]
    """In the table's order, without unmeasured kernels."""
    unmatched: tuple[str, ...]
    """Measured names that the trace does not have, or has under several names."""


def measured_kernels(metrics: KernelMetrics) -> tuple[MeasuredKernel, ...]:
    """The launches of a report by kernel, longest first, then those of unknown time."""
    kernels = (_measured(launches) for launches in _by_name(metrics).values())
    return tuple(sorted(kernels, key=lambda kernel: (kernel.total is None, -(kernel.total or 0))))


def join_kernels(metrics: KernelMetrics, table: KernelTable) -> Joined:
    """Join by name: in full, else without arguments, else only the function's name.

    Looser spellings only join if they match a single name on each side, so that no kernel gets the
    figures of another. The last is for reports with names without template arguments
    (``--kernel-name-base function``).
    """
    rows = [row for row, category in enumerate(table.categories) if category == "kernel"]
    names = [canonical(table.names[row]) for row in rows]
    matchers = [_by(names, rows, key) for key in (str, without_arguments, base)]
    measured = _by_name(metrics)
    row_of = {name: _row(name, matchers) for name in measured}
    chosen = _one_name_a_row(row_of, dict(zip(rows, names, strict=True)))
    kernels = tuple(_joined(table, row, measured[chosen[row]]) for row in sorted(chosen))
    taken = set(chosen.values())
    return Joined(kernels, tuple(measured[name][0].name for name in measured if name not in taken))


def _by_name(metrics: KernelMetrics) -> dict[str, list[Launch]]:
    measured: dict[str, list[Launch]] = {}
    for launch in metrics.launches:
        measured.setdefault(canonical(launch.name), []).append(launch)
    return measured


def _measured(launches: Sequence[Launch]) -> MeasuredKernel:
    compute = _mean(launches, lambda launch: launch.compute_throughput)
    memory = _mean(launches, lambda launch: launch.memory_throughput)
    durations = [launch.duration for launch in launches if launch.duration is not None]
    return MeasuredKernel(
        name=launches[0].name,
        launches=len(launches),
        compute=compute,
        memory=memory,
        occupancy=_mean(launches, lambda launch: launch.achieved_occupancy),
        duration=sum(durations) / len(durations) if durations else None,
        total=sum(durations) if len(durations) == len(launches) else None,
        limit=limit_of(compute, memory),
    )


def _one_name_a_row(row_of: Mapping[str, int | None], names: Mapping[int, str]) -> dict[int, str]:
    """For each row, its own name, or the only name that matches it."""
    answering: dict[int, list[str]] = {}
    for name, row in row_of.items():
        if row is not None:
            answering.setdefault(row, []).append(name)
    return {
        row: names[row] if names[row] in matches else matches[0]
        for row, matches in answering.items()
        if len(matches) == 1 or names[row] in matches
    }


def limit_of(compute: float | None, memory: float | None) -> Limit | None:
    """The limit of a kernel that reaches these percentages of the peaks."""
    reached = [value for value in (compute, memory) if value is not None]
    if not reached or (len(reached) == 1 and reached[0] < LATENCY_BELOW):
        return None
    if max(reached) < LATENCY_BELOW:
        return Limit.LATENCY
    if compute is None or memory is None:
        return Limit.MEMORY if compute is None else Limit.COMPUTE
    if abs(compute - memory) < BALANCED_WITHIN:
        return Limit.BOTH
    return Limit.COMPUTE if compute > memory else Limit.MEMORY


def _by(
    names: Sequence[str], rows: Sequence[int], key: Callable[[str], str]
) -> tuple[Callable[[str], str], dict[str, int | None]]:
    """Rows by spelling; None for a spelling shared by several names."""
    row_of: dict[str, int | None] = {}
    for name, row in zip(names, rows, strict=True):
        spelling = key(name)
        row_of[spelling] = None if spelling in row_of else row
    return key, row_of


def _row(
    name: str, matchers: Iterable[tuple[Callable[[str], str], dict[str, int | None]]]
) -> int | None:
    for key, row_of in matchers:
        # Template arguments distinguish instances: no looser spelling may drop them.
        if key is base and name != base(name):
            return None
        spelling = key(name)
        if spelling in row_of:
            return row_of[spelling]
    return None


def _joined(table: KernelTable, row: int, launches: Sequence[Launch]) -> JoinedKernel:
    measured = _measured(launches)
    calls, total = int(table.calls[row]), int(table.total[row])
    ratio = measured.duration * calls / total if measured.duration is not None and total else None
    figures = {**vars(measured), "name": table.names[row]}
    return JoinedKernel(**figures, row=row, duration_ratio=ratio)


def _mean(launches: Sequence[Launch], value_of: Callable[[Launch], float | None]) -> float | None:
    """Mean weighted by duration; unweighted if any duration is unknown."""
    pairs = [
        (value, launch.duration) for launch in launches if (value := value_of(launch)) is not None
    ]
    if not pairs:
        return None
    weights = [duration for _, duration in pairs if duration]
    if len(weights) < len(pairs):
        return sum(value for value, _ in pairs) / len(pairs)
    return sum(value * weight for (value, _), weight in zip(pairs, weights, strict=True)) / sum(
        weights
    )


OCCUPANCY = "est. achieved occupancy %"
"""Kineto's name of the occupancy: from the launch's sizes and the device's limits, not measured."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class LaunchShapes:
    """Launch configurations of one kernel."""

    occupancy: float | None
    """Mean over its launches in percent, weighted by duration; None if missing for any."""
    shapes: tuple[tuple[Shape, Shape, int], ...]
    """Grid, block and their number of launches, most frequent first."""


@dataclass
class _Counted:
    shapes: Counter[tuple[Shape, Shape]] = field(default_factory=Counter)
    weighted: float = 0.0
    weight: int = 0
    missing: bool = False


def launch_shapes(
    trace: Trace, kernels: KernelTable, progress: Callable[[float], bool] | None = None
) -> dict[int, LaunchShapes]:
    """Launch shapes by row of ``kernels``, without kernels that have none. ``progress`` and errors
    are those of ``arguments_of``."""
    line_of = {
        name: line for line, name in enumerate(kernels.names) if kernels.categories[line] == KERNEL
    }
    rows = np.flatnonzero(trace.in_category(KERNEL))
    counted: dict[int, _Counted] = {}
    for row, arguments in arguments_of(trace, rows, progress):
        line = line_of.get(trace.name_of(row))
        if line is not None:
            _count(counted.setdefault(line, _Counted()), arguments, int(trace.duration[row]))
    result = {}
    for line, entry in counted.items():
        timed = entry.weight and not entry.missing
        shapes = tuple((grid, block, count) for (grid, block), count in entry.shapes.most_common())
        if shapes or timed:
            result[line] = LaunchShapes(entry.weighted / entry.weight if timed else None, shapes)
    return result


def _count(counted: _Counted, arguments: Mapping[str, Any], duration: int) -> None:
    grid, block = _shape(arguments, "grid"), _shape(arguments, "block")
    if grid and block:
        counted.shapes[grid, block] += 1
    occupancy, warps = arguments.get(OCCUPANCY), arguments.get("warps per SM")
    # Kineto writes 0 if it could not compute it, as for kernels with more shared memory than it
    # expects; and, rounded, for launches of less than a warp per multiprocessor.
    has_warp = isinstance(warps, (int, float)) and warps >= 1
    if isinstance(occupancy, (int, float)) and (occupancy > 0 or not has_warp):
        # A launch too short to be timed still counts.
        counted.weighted += occupancy * max(duration, 1)
        counted.weight += max(duration, 1)
    else:
        counted.missing = True


def _shape(arguments: Mapping[str, Any], name: str) -> Shape:
    """Three sizes of grid or block: a list in Kineto's traces, three columns in nsys's."""
    sides = arguments.get(name, [arguments.get(f"{name}{side}") for side in "XYZ"])
    if not isinstance(sides, list) or not all(isinstance(side, int) for side in sides):
        return ()
    return tuple(sides)
