"""Runs with stack samples of every stage, and with events that have a time, built in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Diagnosis, Finding
from perftui.facts.fact import Facts
from perftui.run.columns import EVENT_COLUMNS, STACK_COLUMNS, STACK_TEXT
from perftui.run.reader import RunSnapshot
from perftui.run.table import GrowingTable, Table
from tests.core.diagnosis.runs import MS, make_run

EVERY = 100 * MS


class Seen(NamedTuple):
    """The main thread was there from ``start`` on for ``held``, ms."""

    start: float
    held: float
    line: int
    stage: str = ""
    function: str = "<module>"
    via: str = ""
    inner: str = ""
    file: str = "/p/train.py"


def stacks_of(*rows: Seen) -> Table:
    table = GrowingTable(STACK_COLUMNS, floats=False, text=STACK_TEXT)
    table.extend(
        [
            [
                *(round(row.start * MS), round(row.held * MS), 1),
                *(row.file, row.line, row.function, row.inner or "p/train.py:1 main"),
                *(EVERY, row.stage, row.via),
            ]
            for row in rows
        ]
    )
    return table.freeze()


def pauses(*rows: tuple[float, float, int]) -> Table:
    """Collections: start and length in ms, generation."""
    table = GrowingTable(EVENT_COLUMNS, floats=False, text=("kind", "data"))
    table.extend(
        [
            [round(start * MS), "gc", round(length * MS), at, {"generation": generation}]
            for at, (start, length, generation) in enumerate(rows)
        ]
    )
    return table.freeze()


def run_of(
    steps: Table,
    *seen: Seen,
    events: Table | None = None,
    telemetry: Table | None = None,
    **run: Any,
) -> RunSnapshot:
    made = make_run(steps=steps, telemetry=telemetry, **run)
    rank = replace(made.ranks[0], stacks=stacks_of(*seen))
    if events is not None:
        rank = replace(rank, events=events)
    return replace(made, ranks=(rank,))


def judged(run: RunSnapshot) -> Diagnosis:
    return diagnosis(Facts(run, None))


def said(run: RunSnapshot, rule: str) -> Finding | None:
    return next((one for one in judged(run).findings if one.rule == rule), None)


def told(run: RunSnapshot, rule: str) -> Finding:
    """What that rule says, which is to say something."""
    found = said(run, rule)
    assert found is not None, judged(run).abstentions
    return found


def source_of(finding: Finding) -> str | None:
    return finding.place.source if finding.place else None


def reason(run: RunSnapshot, rule: str) -> str:
    """Why that rule does not judge."""
    return next(one.reason for one in judged(run).abstentions if one.rule == rule)
