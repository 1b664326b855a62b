"""The tables of a trace for users, each in the order in which reports list its rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perftui.analysis.model import KernelTable, OpTable, StepParts
from perftui.api.table import Table, table_of, texts, whole
from perftui.facts.fact import Facts
from perftui.report.csv_tables import step_columns
from perftui.report.gap_sources import GapSources
from perftui.report.report import longest_kernels, longest_ops


def op_table(ops: OpTable, has_gpu: bool) -> Table:
    """Operators, or modules."""
    rows = np.array(longest_ops(ops, has_gpu), dtype=np.int64)
    return table_of(
        {
            "name": texts(ops.names[row] for row in rows),
            "calls": ops.calls[rows],
            "cpu_own_ns": ops.cpu_self[rows],
            "cpu_total_ns": ops.cpu_total[rows],
            "device_own_ns": ops.device_self[rows],
            "device_total_ns": ops.device_total[rows],
        }
    )


def kernel_table(kernels: KernelTable) -> Table:
    """Kernels, copies and sets."""
    rows = np.array(longest_kernels(kernels), dtype=np.int64)
    return table_of(
        {
            "name": texts(kernels.names[row] for row in rows),
            "category": texts(kernels.categories[row] for row in rows),
            "calls": kernels.calls[rows],
            "total_ns": kernels.total[rows],
            "shortest_ns": kernels.shortest[rows],
            "median_ns": kernels.median[rows],
            "longest_ns": kernels.longest[rows],
        }
    )


def step_parts_table(steps: Sequence[StepParts]) -> Table:
    """Steps and their parts; a part that a step does not have takes 0 ns of it."""
    found = step_columns(steps)
    return table_of(
        {
            "index": whole(found.index),
            "start_ns": whole(found.start),
            "duration_ns": whole(found.duration),
            **{_column(name): whole(times) for name, times in found.parts.items()},
        }
    )


def gap_table(facts: Facts) -> Table:
    """Idle gaps of the GPUs; with a run in ``facts`` its stack samples name lines, too."""
    gaps = facts.analysis.gaps if facts.analysis else ()
    sources = GapSources(facts)
    found = [sources.of(gap) for gap in gaps]
    return table_of(
        {
            "device": whole(gap.device for gap in gaps),
            "start_ns": whole(gap.start for gap in gaps),
            "duration_ns": whole(gap.duration for gap in gaps),
            "cause": texts(gap.cause.value for gap in gaps),
            "phase": texts(gap.phase or None for gap in gaps),
            "operator": texts(one.operator for one in found),
            "source": texts(one.line for one in found),
        }
    )


def _column(part: str) -> str:
    return "".join(one if one.isalnum() else "_" for one in part) + "_ns"
