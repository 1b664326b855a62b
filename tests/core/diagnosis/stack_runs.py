"""Runs whose main thread was looked at, built in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perftui.run.columns import STACK_COLUMNS, STACK_TEXT
from perftui.run.reader import RunSnapshot
from perftui.run.table import GrowingTable, Table
from tests.core.diagnosis.runs import MS, make_run, step_table

ORIGIN = 1_000 * MS
"""Wall clock of the traces here."""

RATE = 10


def stack_table(*rows: tuple[int, int, str, int]) -> Table:
    """Stretches (start ms, length ms, file, line)."""
    table = GrowingTable(STACK_COLUMNS, floats=False, text=STACK_TEXT)
    table.extend(
        [
            [
                *(start * MS, held * MS, 1, file, line, "main", f"torch/x.py:{line} forward"),
                *(1_000_000_000 // RATE, "", ""),
            ]
            for start, held, file, line in rows
        ]
    )
    return table.freeze()


def run_with(stacks: Table, steps: int = 100, **profile: Any) -> RunSnapshot:
    """Steps of 100 ms each, from 0 on."""
    run = make_run(
        steps=step_table(steps, {"forward": 20, "other": 80}),
        profile={"stack_rate": RATE, **profile},
    )
    rank = run.ranks[0]
    return replace(run, ranks=(replace(rank, stacks=stacks),))


def at_wall(*rows: tuple[int, int, str, int]) -> Table:
    """Stretches whose starts are ms of the trace."""
    return stack_table(*((start + ORIGIN // MS, *rest) for start, *rest in rows))
