"""A training that runs and comes to no step, and where its main threads are meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perftui.diagnosis.model import Finding, Severity
from perftui.run.journal import Column
from perftui.run.manifest import Status
from perftui.run.reader import RunSnapshot
from perftui.run.table import GrowingTable, Table
from tests.core.diagnosis.runs import MS, step_table
from tests.core.diagnosis.script_runs import Seen, judged, run_of, said, source_of, stacks_of

SECOND = 1000


def until(ms: float) -> Table:
    """Samples of the machine, the last at that time."""
    table = GrowingTable((Column("time", "ns"), Column("cpu.cores")), floats=True)
    table.extend([[at * MS, 8.0] for at in (0.0, ms)])
    return table.freeze()


def waiting(seconds: float, *seen: Seen, step: float = 100, **run: Any) -> RunSnapshot:
    """40 steps, and so many seconds since the last."""
    usual = {"status": Status.RUNNING, "telemetry": until(40 * step + seconds * SECOND)}
    return run_of(step_table(40, {"forward": step}), *seen, **{**usual, **run})


def told(run: RunSnapshot) -> Finding | None:
    return said(run, "no-progress")


HUNG = Seen(4050, 30_000, 31, function="reduce", via="torch/distributed all_reduce")


def test_a_hang_is_reported_with_its_line() -> None:
    run = waiting(45, Seen(3000, 900, 12), HUNG)
    finding = told(run)
    assert finding is not None
    assert finding.sentence == (
        "No step has ended for 45 s, since step 39; a step usually takes 100 ms. Its main thread "
        "was last seen at train.py:31 in reduce."
    )
    assert (finding.rule, finding.severity, finding.cost_ns) == ("no-progress", Severity.WARNING, 0)
    assert source_of(finding) == "/p/train.py:31"
    assert "healthy" not in [one.rule for one in judged(run).findings]


def test_ranks_are_reported_by_where_they_wait() -> None:
    run = waiting(45, HUNG)
    others = [
        replace(run.ranks[0], rank=number, stacks=stacks_of(seen))
        for number, seen in ((1, HUNG), (2, Seen(4100, 20_000, 7, function="load")))
    ]
    finding = told(replace(run, ranks=(*run.ranks, *others)))
    assert finding is not None
    assert finding.sentence.endswith(
        "Main threads were last seen: rank 0, 1 at train.py:31 in reduce; rank 2 at train.py:7 in "
        "load."
    )


@pytest.mark.parametrize(
    ("seconds", "step", "has_finding"),
    [(29.9, 100, False), (30.1, 100, True), (37, 2000, False), (41, 2000, True)],
)
def test_from_half_a_minute_and_twenty_steps_on(
    seconds: float, step: float, has_finding: bool
) -> None:
    assert (told(waiting(seconds, step=step)) is not None) is has_finding


def test_without_samples_it_says_so() -> None:
    finding = told(waiting(45))
    assert finding is not None
    assert finding.sentence.endswith("No stack sample shows where its main thread is.")
    assert finding.place is None


def test_a_pause_as_long_as_one_before_is_none() -> None:
    steps = step_table(40, {"forward": 100})
    start = steps["start"].copy()
    start[20:] += 20 * SECOND * MS
    steps = Table(steps.columns, {**steps.values, "start": start})

    def after(seconds: float) -> Finding | None:
        samples = until(24 * SECOND + seconds * SECOND)
        return told(run_of(steps, status=Status.RUNNING, telemetry=samples))

    assert after(40) is None
    assert after(41) is not None


@pytest.mark.parametrize("status", [Status.EXITED, Status.KILLED, Status.LOST])
def test_a_run_that_is_over_does_not_wait(status: Status) -> None:
    assert told(waiting(45, HUNG, status=status)) is None


def test_without_a_clock_or_a_step_nothing_is_reported() -> None:
    assert told(waiting(45, telemetry=None)) is None
    assert told(run_of(step_table(0, {}), status=Status.RUNNING, telemetry=until(90_000))) is None
