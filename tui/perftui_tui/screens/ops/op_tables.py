"""The operator and kernel tables as columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from perftui.analysis.kernels.category import TensorCores, TensorCoreTime, tensor_cores
from perftui.analysis.kernels.metrics import JoinedKernel, LaunchShapes
from perftui.analysis.model import KernelTable, OpTable
from perftui.analysis.ops.calls import NameSums
from perftui.trace.model import KERNEL
from perftui.trace.text import printable
from perftui_tui.keys.keymap import hint
from perftui_tui.look.units import MISSING
from perftui_tui.tables.columns import (
    Texts,
    count_column,
    kernel_column,
    name_column,
    percent_column,
    share_columns,
    tensor_column,
    text_column,
    time_column,
)
from perftui_tui.tables.rows import RIGHT, Column, TableData

_DIRECTORIES = re.compile(r"^.*[/\\](?=[^/\\]+[/\\][^/\\]+:\d+ )")
"""Directories of a line of code, all but the last."""

NO_OPERATORS = "no operator calls recorded: press {app.capture} to capture a window of steps"
NO_RANGES = (
    "no ranges in this trace: torch.profiler.record_function(NAME), or torch.cuda.nvtx.range(NAME) "
    "under nsys, marks one"
)
NO_CALLS = "no calls of the CUDA runtime or driver: recorded on the CPU only, or without them"
NO_KERNELS = "no GPU activity in this trace: recorded on the CPU only, or without CUDA activities"


def group_table(
    table: OpTable, title: str, things: str, tensor: TensorCoreTime | None = None
) -> TableData:
    """Groups of calls: sorted by device time where a GPU was used, else by CPU self time; with the
    share on tensor cores where that is known."""
    device = bool(table.device_self.sum())
    share_of = table.device_self if device else table.cpu_self
    columns = [
        name_column(title, Texts(len(table), lambda row: short_label(table.names[row])), things),
        count_column("calls", table.calls),
        time_column("own CPU", table.cpu_self, 3 if device else 0, summed=table.cpu_self),
        time_column("total CPU", table.cpu_total, 4),
    ]
    if device:
        columns += [
            time_column("own GPU", table.device_self, summed=table.device_self),
            time_column("total GPU", table.device_total, 5),
            *([tensor_column(tensor)] if tensor else []),
        ]
    columns += share_columns(share_of, int(share_of.sum()))
    by = 4 if device else 2
    return TableData(table.names, tuple(columns), sort_column=by, empty=hint(NO_OPERATORS))


def kernel_table(
    kernels: KernelTable,
    launches: Mapping[int, LaunchShapes] | None = None,
    measured: Mapping[int, JoinedKernel] | None = None,
) -> TableData:
    """Kernels, copies and sets, longest in sum first, with what is known of their launches."""
    count = len(kernels)
    kinds = [category.removeprefix("gpu_") for category in kernels.categories]
    columns = [
        kernel_column(kernels),
        text_column("kind", kinds, 6, 9),
        count_column("calls", kernels.calls),
        time_column("total", kernels.total, summed=kernels.total),
        time_column("min", kernels.shortest, 8),
        time_column("p50", kernels.median, 4),
        time_column("max", kernels.longest, 6),
        text_column("tensor", Texts(count, lambda row: _tensor(kernels, row)), 6, 3),
        *_measured(kernels, measured or {}),
        *_occupancy(kernels, launches or {}, measured or {}),
        text_column(
            "stream", Texts(count, lambda row: _streams(kernels.streams[row])), 8, 10, RIGHT
        ),
        *share_columns(kernels.total, int(kernels.total.sum())),
    ]
    ids = list(zip(kernels.categories, kernels.names, strict=True))
    return TableData(kernels.names, tuple(columns), sort_column=3, empty=NO_KERNELS, ids=ids)


def sums_table(found: NameSums, title: str, things: str, empty: str, *, nests: bool) -> TableData:
    """Ranges or calls by name, longest in sum first. The times of ranges, which nest, are not added
    up; shares are of that sum all the same, as in ``nsys stats``."""
    columns = (
        name_column(title, [printable(name) for name in found.names], things),
        count_column("calls", found.calls),
        time_column("total", found.total, summed=None if nests else found.total),
        time_column("mean", found.mean, 4),
        time_column("min", found.shortest, 6),
        time_column("max", found.longest, 5),
        *share_columns(found.total, int(found.total.sum())),
    )
    return TableData(found.names, columns, sort_column=2, empty=empty)


def short_label(label: str) -> str:
    """A line of code with one directory, and anything else as it is; safe to show."""
    return _DIRECTORIES.sub("", printable(label), count=1)


def _tensor(kernels: KernelTable, row: int) -> str:
    if kernels.categories[row] != KERNEL:
        return TensorCores.NONE.value
    return tensor_cores(kernels.names[row]).value


def _measured(kernels: KernelTable, measured: Mapping[int, JoinedKernel]) -> list[Column]:
    """What limits them, measured by ncu; no columns without its report."""
    if not measured:
        return []
    found = [measured.get(row) for row in range(len(kernels))]
    limits = [each.limit.value if each and each.limit else MISSING for each in found]
    return [
        percent_column("compute", [each.compute if each else None for each in found], 5),
        percent_column("memory", [each.memory if each else None for each in found], 5),
        text_column("limit", limits, 18, 8),
    ]


def _occupancy(
    kernels: KernelTable, launches: Mapping[int, LaunchShapes], measured: Mapping[int, JoinedKernel]
) -> list[Column]:
    """The occupancy measured by ncu, else the profiler's estimate."""
    rows = range(len(kernels))
    if any(each.occupancy is not None for each in measured.values()):
        known = [measured[row].occupancy if row in measured else None for row in rows]
        return [percent_column("occupancy", known, 7)]
    if any(each.occupancy is not None for each in launches.values()):
        known = [launches[row].occupancy if row in launches else None for row in rows]
        return [percent_column("est. occ", known, 7)]
    return []


def _streams(streams: Sequence[tuple[int, int]]) -> str:
    """Device and stream; of several the first, and how many more."""
    if not streams:
        return MISSING
    device, stream = streams[0]
    more = f" +{len(streams) - 1}" if len(streams) > 1 else ""
    return f"{device}:{stream}{more}"
