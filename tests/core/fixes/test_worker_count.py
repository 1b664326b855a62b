"""How many workers a machine carries, by what those there are take of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.cpu.machine import MachineFacts, machine_use, ranks_here
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.data_loader.loader_work import loader_work
from perftui.facts.fact import Facts
from perftui.facts.step.steps import step_breakdown
from perftui.fixes.fix import option as option_of
from perftui.fixes.model import Risk
from perftui.fixes.workers import LEAST_CPU, WORKERS, worker_count, worker_cpu
from tests.core.diagnosis.runs import MS, make_run, telemetry_table, worker_table
from tests.facts_given import facts_with

PHASES = {"input_wait": 60, "forward": 40}


def facts_of(
    workers: int, cores: int, used: float, training: float, others: float = 0.0, busy: float = 1.0
) -> Facts:
    """Of ``workers`` that are ``busy`` and use so many cores together, beside the training and
    other programs."""
    rows = [
        {
            "time": 3000 * MS,
            "worker": number,
            "pid": 10 + number,
            "batches": 10,
            "fetch": round(1000 * busy) * MS,
        }
        for number in range(workers)
    ]
    telemetry = telemetry_table(
        **{
            "cpu.utilization": 100 * (used + training + others) / cores,
            "cpu.cores": cores,
            "processes.cpu": 100 * (used + training),
            "processes.ranks_cpu": 100 * training,
            "processes.workers_cpu": 100 * used,
        }
    )
    loader = {"id": 1, "num_workers": workers, "start_method": "fork"}
    run = make_run(
        phases=PHASES,
        loaders=(loader,),
        workers=worker_table(*rows),
        telemetry=telemetry,
        cpu_count=cores,
    )
    return Facts(run, None)


def wanted(facts: Facts) -> int | None:
    offered = option_of(WORKERS, facts)
    assert offered is not None
    return None if offered.override is None else offered.override.arguments["num_workers"]


def test_what_workers_take_is_told_from_what_the_training_will_take() -> None:
    found = worker_cpu(facts_of(4, 16, used=3.0, training=1.2, busy=0.75))
    assert found is not None
    assert found.worker == pytest.approx(1.0)
    # It waits for 60 of 100 ms, and uses as much as that in the other 40.
    assert found.training == pytest.approx(3.0)
    assert found.carried(16, elsewhere=2.0) == 11


@pytest.mark.parametrize(
    ("facts", "count"),
    [
        # Room for seven, and twice as many at most.
        (facts_of(2, 8, used=2.0, training=0.4), 4),
        (facts_of(4, 8, used=4.0, training=0.4), 7),
        # Other programs take two of them.
        (facts_of(4, 8, used=4.0, training=0.4, others=2.0), 5),
        # The training itself will take five cores when it is fed.
        (facts_of(4, 8, used=4.0, training=2.0), None),
        # Workers that wait for a disk take next to nothing: as many as there are cores.
        (facts_of(3, 4, used=0.3, training=0.4), 6),
        (facts_of(3, 4, used=0.3, training=1.4), 5),
    ],
)
def test_a_loader_gets_as_many_as_the_machine_carries(facts: Facts, count: int) -> None:
    assert wanted(facts) == count


def test_why_there_is_no_room_is_said_in_numbers() -> None:
    offered = option_of(WORKERS, facts_of(4, 6, used=4.0, training=1.2))
    assert offered is not None
    assert offered.why_not == (
        "no core is free for more workers (a busy worker uses 1.0 of 6 cores, the training 3.0 "
        "without waiting)"
    )


def test_ranks_of_one_host_share_its_cores() -> None:
    alone = facts_of(2, 8, used=4.0, training=0.8)
    two = facts_with(alone, {ranks_here: 2})
    found = worker_cpu(two)
    assert found is not None
    assert (found.worker, found.training) == (pytest.approx(1.0), pytest.approx(2.0))
    # Six for both.
    assert wanted(two) == 3


def test_new_workers_that_take_little_are_no_risk_to_the_step() -> None:
    """0.65 of four cores are idle, and another worker would take 0.05."""
    offered = option_of(WORKERS, facts_of(3, 4, used=0.15, training=0.4, others=2.8))
    assert offered is not None
    assert offered.title == "num_workers 3 -> 4"
    assert Risk.CORES not in offered.risks


@pytest.mark.parametrize(
    "unknown",
    [
        facts_with(facts_of(2, 8, 2.0, 0.4), {loader_work: None}),
        facts_with(facts_of(2, 8, 2.0, 0.4), {training_loader: None}),
        facts_with(facts_of(2, 8, 2.0, 0.4), {step_breakdown: None}),
        facts_with(facts_of(2, 8, 2.0, 0.4), {machine_use: MachineFacts(cores=8)}),
        facts_of(2, 8, used=0.2, training=0.4, busy=0.1),
    ],
)
def test_where_too_little_was_measured_nothing_is_claimed(unknown: Facts) -> None:
    assert worker_cpu(unknown) is None


@given(
    current=st.integers(1, 16),
    cores=st.integers(1, 128),
    ranks=st.integers(1, 8),
    carried=st.integers(0, 300),
)
def test_no_more_than_is_carried_and_never_fewer_than_there_are(
    current: int, cores: int, ranks: int, carried: int
) -> None:
    count = worker_count(current, cores, ranks, carried=carried)
    assert count == 0 or current < count <= min(2 * current, carried // ranks)


def test_a_worker_never_takes_nothing() -> None:
    found = worker_cpu(facts_of(2, 8, used=0.0, training=0.4))
    assert found is not None
    assert found.worker == LEAST_CPU
