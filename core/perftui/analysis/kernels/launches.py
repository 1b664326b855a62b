"""How kernels were launched: grid, block and occupancy, which only arguments hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perftui.analysis.model import KernelTable
from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import KERNEL, Trace

OCCUPANCY = "est. achieved occupancy %"
"""Kineto's name of the occupancy: from the launch's sizes and the device's limits, not measured."""

_SIDES = ("X", "Y", "Z")

Shape = tuple[int, ...]


@dataclass(frozen=True)
class LaunchShapes:
    """How one kernel was launched."""

    occupancy: float | None
    """Mean over its launches in per cent, by their durations; None where one has none."""
    shapes: tuple[tuple[Shape, Shape, int], ...]
    """Grid, block and how many launches had them, most frequent first."""


@dataclass
class _Counted:
    shapes: Counter[tuple[Shape, Shape]] = field(default_factory=Counter)
    weighted: float = 0.0
    weight: int = 0
    missing: bool = False


def launch_shapes(
    trace: Trace, kernels: KernelTable, progress: Callable[[float], bool] | None = None
) -> dict[int, LaunchShapes]:
    """By line of ``kernels``; without those whose launches have none. ``progress`` and errors are
    those of ``arguments_of``."""
    line_of = {
        name: line for line, name in enumerate(kernels.names) if kernels.categories[line] == KERNEL
    }
    rows = np.flatnonzero(trace.in_category(KERNEL))
    counted: dict[int, _Counted] = {}
    for row, arguments in arguments_of(trace, rows, progress):
        line = line_of.get(trace.name_of(row))
        if line is not None:
            _count(counted.setdefault(line, _Counted()), arguments, int(trace.duration[row]))
    found = {line: _summed(one) for line, one in counted.items()}
    return {line: one for line, one in found.items() if one.shapes or one.occupancy is not None}


def _count(counted: _Counted, arguments: Mapping[str, Any], duration: int) -> None:
    grid, block = _shape(arguments, "grid"), _shape(arguments, "block")
    if grid and block:
        counted.shapes[grid, block] += 1
    occupancy = arguments.get(OCCUPANCY)
    if isinstance(occupancy, (int, float)) and not _is_unknown(occupancy, arguments):
        # A launch too short to be timed still counts.
        counted.weighted += occupancy * max(duration, 1)
        counted.weight += max(duration, 1)
    else:
        counted.missing = True


def _is_unknown(occupancy: float, arguments: Mapping[str, Any]) -> bool:
    """Kineto writes 0 where it could not work it out, as for kernels with more shared memory than
    it knows of; and, rounded, for launches of less than a warp a multiprocessor."""
    warps = arguments.get("warps per SM")
    return occupancy <= 0 and isinstance(warps, (int, float)) and warps >= 1


def _shape(arguments: Mapping[str, Any], name: str) -> Shape:
    """Three sides of grid or block: a list in Kineto's traces, three columns in nsys's."""
    found = arguments.get(name, [arguments.get(f"{name}{side}") for side in _SIDES])
    if not isinstance(found, list) or not all(isinstance(each, int) for each in found):
        return ()
    return tuple(found)


def _summed(counted: _Counted) -> LaunchShapes:
    known = counted.weight and not counted.missing
    shapes = tuple((grid, block, count) for (grid, block), count in counted.shapes.most_common())
    return LaunchShapes(counted.weighted / counted.weight if known else None, shapes)
