"""The whole table, specific rows before general ones: of rows that fit a line as well the first
counts."""

from __future__ import annotations

from perftui.diagnosis.slow_calls import (
    arrays,
    files,
    media,
    reporting,
    standard_library,
    tables,
    tensors,
)
from perftui.diagnosis.slow_calls.row import SlowCall

ROWS: tuple[SlowCall, ...] = (
    *files.ROWS,
    *tables.ROWS,
    *media.ROWS,
    *reporting.ROWS,
    *arrays.ROWS,
    *tensors.ROWS,
    *standard_library.ROWS,
)
