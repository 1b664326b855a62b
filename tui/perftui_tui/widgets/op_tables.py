"""The operator and kernel tables as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from perftui.analysis.model import KernelTable, OpTable, TraceAnalysis
from perftui.trace.model import Int64
from perftui.trace.text import printable
from perftui_tui.charts.blocks import LEFT_EIGHTHS, filled_steps
from perftui_tui.charts.units import format_count, format_ns, format_percent
from perftui_tui.widgets.table_rows import LEFT, Column, TableData

_TIME_WIDTH = 10
_ARROW = 2
"""A blank and the mark of the order behind the title of the column it is sorted by."""

_SHARE_BAR = 8

NO_OPERATORS = "no operator calls recorded: press c to capture a window of steps"
NO_KERNELS = "no GPU activity in this trace: recorded on the CPU only, or without CUDA activities"


def operator_table(analysis: TraceAnalysis, ascii_only: bool = False) -> TableData:
    """Operators: sorted by device time where a GPU was recorded, else by CPU self time."""
    ops = analysis.ops
    device = bool(ops.device_self.sum())
    share_of = ops.device_self if device else ops.cpu_self
    columns = [
        _name_column("op", [printable(name) for name in ops.names], "ops"),
        _count_column("calls", ops.calls),
        _time_column("self CPU", ops.cpu_self, summed=True, optional=0 if not device else 2),
        _time_column("total CPU", ops.cpu_total, summed=False, optional=3),
    ]
    if device:
        columns += _device_columns(ops)
    columns.append(share_column("share", share_of, int(share_of.sum()), ascii_only))
    by = 4 if device else 2
    return TableData(ops.names, tuple(columns), sort_column=by, empty=NO_OPERATORS)


def _device_columns(ops: OpTable) -> list[Column]:
    return [
        _time_column("self GPU", ops.device_self, summed=True),
        _time_column("total GPU", ops.device_total, summed=False, optional=4),
    ]


def kernel_table(kernels: KernelTable, ascii_only: bool = False) -> TableData:
    """Kernels, copies and sets, longest in sum first."""
    names = [printable(name) for name in kernels.names]
    mean = kernels.total // np.maximum(kernels.calls, 1)
    columns = (
        _name_column("kernel", names, "kernels"),
        _words_column("kind", [_kind(category) for category in kernels.categories], 7),
        _count_column("calls", kernels.calls),
        _time_column("total", kernels.total, summed=True),
        _time_column("mean", mean, summed=False, optional=2),
        _time_column("shortest", kernels.shortest, summed=False, optional=4),
        _time_column("longest", kernels.longest, summed=False, optional=3),
        share_column("share", kernels.total, int(kernels.total.sum()), ascii_only),
    )
    return TableData(kernels.names, columns, sort_column=3, empty=NO_KERNELS)


def _kind(category: str) -> str:
    return category.removeprefix("gpu_")


def _name_column(title: str, names: Sequence[str], things: str) -> Column:
    def total(rows: Int64) -> str:
        shown, whole = format_count(len(rows)), format_count(len(names))
        return f"{whole} {things}" if len(rows) == len(names) else f"{shown} of {whole} {things}"

    return Column(title, names, names.__getitem__, align=LEFT, total=total)


def _words_column(title: str, words: Sequence[str], width: int) -> Column:
    return Column(title, words, words.__getitem__, width, align=LEFT, optional=1)


def _count_column(title: str, counts: Int64) -> Column:
    return Column(
        title,
        counts,
        lambda row: format_count(int(counts[row])),
        width=8,
        total=lambda rows: format_count(int(counts[rows].sum())),
        optional=1,
    )


def _time_column(title: str, times: Int64, summed: bool, optional: int = 0) -> Column:
    """A column of durations; ``summed`` where the rows do not overlap."""

    def total(rows: Int64) -> str:
        return format_ns(int(times[rows].sum()))

    return Column(
        title,
        times,
        lambda row: format_ns(int(times[row])),
        width=max(_TIME_WIDTH, len(title) + _ARROW),
        total=total if summed else None,
        optional=optional,
    )


def share_column(title: str, values: Int64, whole: int, ascii_only: bool = False) -> Column:
    """Each value as a part of ``whole``, in figures and as a bar."""
    bar = ascii_bar if ascii_only else block_bar

    def text(row: int) -> str:
        return _share(int(values[row]), whole, bar)

    def total(rows: Int64) -> str:
        return _share(int(values[rows].sum()), whole, bar)

    return Column(title, values, text, width=8 + _SHARE_BAR, align=LEFT, total=total)


def _share(part: int, whole: int, bar: Callable[[float, int], str]) -> str:
    fraction = part / whole if whole else 0.0
    return f"{format_percent(fraction):>7} {bar(fraction, _SHARE_BAR)}"


def block_bar(fraction: float, width: int) -> str:
    """``fraction`` of ``width`` cells, filled from the left to an eighth of a cell."""
    steps = filled_steps(fraction, width * 8)
    full, rest = divmod(steps, 8)
    return ("█" * full + (LEFT_EIGHTHS[rest] if rest else "")).ljust(width)


def ascii_bar(fraction: float, width: int) -> str:
    """``fraction`` of ``width`` cells, filled from the left."""
    return ("#" * filled_steps(fraction, width)).ljust(width)
