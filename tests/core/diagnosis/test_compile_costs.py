"""``torch.compile`` in runs that are too short to win back what it takes."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.model import Severity
from perftui.run.columns import EVENT_COLUMNS
from perftui.run.manifest import Status
from perftui.run.reader import RunSnapshot
from perftui.run.table import GrowingTable
from tests.core.diagnosis.runs import MS, joined, step_table
from tests.core.diagnosis.script_runs import run_of, said

SECOND = 1000 * MS


def compiling(seconds: float, first: float = 5, steps: int = 60, **run: Any) -> RunSnapshot:
    """A first step of so many seconds, in which torch compiles, and then short ones."""
    table = GrowingTable(EVENT_COLUMNS, floats=False, text=("kind", "data"))
    inner = {"start": SECOND // 10, "forward": False}
    for length, data in ((seconds, {"start": SECOND // 10, "forward": True}), (seconds / 2, inner)):
        table.extend([[0, "compile", round(length * SECOND), 0, data]])
    parts = (step_table(1, {"forward": first * 1000}), step_table(steps, {"forward": 100}))
    return run_of(joined(*parts), events=table.freeze(), **{"started_ns": 0, **run})


def test_it_is_reported_with_the_steps_that_would_pay() -> None:
    finding = said(compiling(4), "compile-not-paid")
    assert finding is not None
    assert finding.sentence == (
        "torch.compile took 4.0 s, 36 % of the run: with the usual gain that pays off after 93 "
        "steps, and this run had 61."
    )
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)
    assert finding.facts[-1].value == 100 * MS + 4 * SECOND // 61


@pytest.mark.parametrize(
    ("story", "has_finding"),
    [
        ({"seconds": 2.7}, True),
        ({"seconds": 2.6}, False),
        ({"seconds": 2.4, "first": 9, "steps": 30}, True),
        ({"seconds": 2.3, "first": 9, "steps": 30}, False),
        ({"seconds": 4, "status": Status.RUNNING}, False),
    ],
)
def test_only_of_a_short_run_that_is_over(story: dict[str, Any], has_finding: bool) -> None:
    assert (said(compiling(**story), "compile-not-paid") is not None) is has_finding


def test_without_compiling_before_the_steps_nothing_is_reported() -> None:
    assert said(run_of(step_table(60, {"forward": 100})), "compile-not-paid") is None
    late = compiling(4, first=0.1)
    assert said(late, "compile-not-paid") is None
