"""Rows of steps, for tests that are about a few of their columns."""

from collections.abc import Sequence
from typing import Any

from perftui.run.columns import PHASES, STEP_COLUMNS
from perftui.run.journal import Column
from perftui.run.table import GrowingTable, Table


def table_of(
    columns: Sequence[Column], rows: Sequence[Sequence[Any]], *, floats: bool = False
) -> Table:
    """A journal's table of whole numbers and text, or of samples."""
    table = GrowingTable(columns, floats=floats)
    table.extend(rows)
    return table.freeze()


def step_row(index: int, phases: Sequence[int] = (), **known: Any) -> list[Any]:
    """A training step of ``phases``, in their order, as long as their sum unless it is given.

    What else is not given is unknown."""
    values: dict[str, Any] = {column.name: -1 for column in STEP_COLUMNS}
    parts = phases or [0] * len(PHASES)
    values |= dict(zip(PHASES, parts, strict=True))
    values |= {"index": index, "kind": "train", "start": 0, "duration": sum(parts)}
    values |= {"micro_batches": 1, "profiled": 0, "overhead": 0}
    values |= known
    return [values[column.name] for column in STEP_COLUMNS]
