"""Every metric of a machine, as the tables of docs/metrics.md."""

from __future__ import annotations

from collections.abc import Iterable

from perftui.run.journal import Column
from perftui.telemetry import pressure
from perftui.telemetry.cpu import cores, frequency, quota
from perftui.telemetry.disk import data_disk, disks, nfs
from perftui.telemetry.gpu.columns import gpu_columns
from perftui.telemetry.memory import shared, usage
from perftui.telemetry.network import infiniband, interfaces
from perftui.telemetry.processes import contention, pss, threads
from perftui.telemetry.processes import metrics as processes

HOST = {
    "CPU": (
        *cores.COLUMNS,
        *cores.LINUX_COLUMNS,
        cores.core_column("N"),
        *frequency.COLUMNS,
        *quota.COLUMNS,
        pressure.COLUMNS["cpu"],
    ),
    "Processes of the run": (
        *processes.COLUMNS,
        *threads.COLUMNS,
        *contention.COLUMNS,
        *pss.COLUMNS,
    ),
    "Memory": (
        *usage.COLUMNS,
        usage.PAGE_CACHE,
        usage.OOM_KILLS,
        *shared.COLUMNS,
        pressure.COLUMNS["memory"],
    ),
    "Disk": (*disks.COLUMNS, *data_disk.COLUMNS, *nfs.COLUMNS, pressure.COLUMNS["io"]),
    "Network": (*interfaces.COLUMNS, interfaces.RETRANSMITS, *infiniband.COLUMNS),
}
"""Columns of all sources but those of GPUs, by group."""


def tables() -> str:
    """All metrics as Markdown, one table for each group."""
    groups = {**HOST, "GPU": gpu_columns()}
    return "\n\n".join(f"## {title}\n\n{_table(columns)}" for title, columns in groups.items())


def _table(columns: Iterable[Column]) -> str:
    head = ("| Metric | Unit | What it is | Source |", "|---|---|---|---|")
    return "\n".join((*head, *map(_row, columns)))


def _row(column: Column) -> str:
    return f"| `{column.name}` | {column.unit} | {column.meaning} | `{column.source}` |"
