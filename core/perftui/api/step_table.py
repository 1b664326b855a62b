"""The steps of a run as a table for users."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.api.table import Table, table_of, texts
from perftui.run.columns import PHASES, STEP_COLUMNS, STEP_TEXT
from perftui.run.table import Table as RunTable

_SUFFIXES = {"ns": "_ns", "B": "_bytes"}

ALWAYS_KNOWN = frozenset({"index", "start", "duration", *PHASES, "micro_batches", "overhead"})
"""Columns of whole numbers: runs of every version have them."""


def step_table(steps: RunTable | None) -> Table:
    """``steps`` by ``STEP_COLUMNS``, with units in the names of the columns; empty without any."""
    columns = {}
    for column in STEP_COLUMNS:
        name = column.name + _SUFFIXES.get(column.unit, "")
        is_there = steps is not None and column.name in steps
        values = steps[column.name] if steps is not None and is_there else None
        columns[name] = _converted(column.name, values, len(steps) if steps is not None else 0)
    return table_of(columns)


def _converted(name: str, values: npt.NDArray[Any] | None, rows: int) -> npt.NDArray[Any]:
    if name in STEP_TEXT:
        return texts(values if values is not None else [None] * rows)
    numbers = values if values is not None else np.full(rows, -1, dtype=np.int64)
    if name == "profiled":
        return np.asarray(numbers == 1)
    is_unknown = numbers < 0
    if name in ALWAYS_KNOWN and not is_unknown.any():
        return numbers
    return np.where(is_unknown, np.nan, numbers)
