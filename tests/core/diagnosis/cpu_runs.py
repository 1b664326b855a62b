"""Runs that train on the CPU, with the operators of a window and the lines of the main thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding
from perftui.facts.fact import Facts
from perftui.run.columns import STACK_COLUMNS, STACK_TEXT
from perftui.run.table import GrowingTable, Table
from tests.core.diagnosis.runs import MS, event_table, make_run
from tests.core.diagnosis.stories import found
from tests.traces.builder import TraceBuilder, us

SAMPLE = MS

FLOATS: dict[str, Any] = {
    "dtype": "float32",
    "device": "cpu",
    "tensors": 60,
    "trained": 60,
    "elements": 6_000_000,
    "largest": 100_000,
    "unused": 0,
    "unused_elements": 0,
}
SGD = {"name": "torch.optim.sgd.SGD", "file": "/p/train.py", "line": 5, "parameters": 60}
NOTE: dict[str, Any] = {"optimizers": [SGD], "parameters": [FLOATS]}


def staged(*rows: tuple[str, int, str]) -> Table:
    """Samples by file, line and stage, ten of each."""
    table = GrowingTable(STACK_COLUMNS, floats=False, text=STACK_TEXT)
    every = [row for row in rows for _ in range(10)]
    table.extend(
        [
            [at * SAMPLE, SAMPLE, 1, file, line, "main", "torch/x.py:1 f", SAMPLE, stage, ""]
            for at, (file, line, stage) in enumerate(every)
        ]
    )
    return table.freeze()


def trained(
    step: Callable[[TraceBuilder], object],
    phases: dict[str, float],
    *lines: tuple[str, int, str],
    note: dict[str, Any] | None = NOTE,
    steps: int = 2,
) -> Facts:
    """A run of steps with ``phases`` in ms; ``step`` tells what a window saw of each.

    None as ``note`` stands for a run that did not say how it is set up.
    """

    def whole(story: TraceBuilder) -> None:
        story.step()
        step(story)
        story.end()

    run = make_run(count=100, phases=phases)
    events = event_table(events=(("settings", note),) if note else ())
    rank = replace(run.ranks[0], events=events, stacks=staged(*lines))
    return Facts(replace(run, ranks=(rank,)), TraceBuilder().repeat(steps, whole).analysis())


def judged(facts: Facts, rule: str) -> Finding | None:
    """What that rule says."""
    return found(diagnosis(facts), rule)


def ops(story: TraceBuilder, *names: str, each: float = 10, gap: float = 0) -> TraceBuilder:
    """Operators one after the other, of so many us and with so many between."""
    for name in names:
        story.op(name, us(each)).pause(us(gap))
    return story


def call(story: TraceBuilder, *nested: str, lasting: float = 10) -> TraceBuilder:
    """Operators that call each other; the innermost takes so many us."""
    for name in nested[:-1]:
        story.op(name)
    story.op(nested[-1], us(lasting))
    for _ in nested[:-1]:
        story.close()
    return story
