"""Every metric of a machine, as the tables of docs/metrics.md."""

from __future__ import annotations

from collections.abc import Iterable

from perftui.run.journal import Column
from perftui.telemetry.gpu.columns import gpu_columns
from perftui.telemetry.host_sources import host_columns


def tables() -> str:
    """All metrics as Markdown, one table for each group."""
    groups = {**host_columns(), "GPU": gpu_columns()}
    return "\n\n".join(f"## {title}\n\n{_table(columns)}" for title, columns in groups.items())


def _table(columns: Iterable[Column]) -> str:
    head = ("| Metric | Unit | What it is | Source |", "|---|---|---|---|")
    return "\n".join((*head, *map(_row, columns)))


def _row(column: Column) -> str:
    return f"| `{column.name}` | {column.unit} | {column.meaning} | `{column.source}` |"
