"""What workers would gain, and that they are not offered where they would bring nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.fact import Facts
from perftui.fixes.fix import option
from perftui.fixes.model import FixOption
from perftui.fixes.workers import LEAST_GAIN, WORKERS, StepCost, step_cost
from tests.core.diagnosis.runs import MS, make_run, telemetry_table, worker_table

COST = StepCost(
    now=100.0 * MS,
    without_wait=40.0 * MS,
    training_cpu=40.0 * MS,
    batches=1,
    make_cpu=60.0 * MS,
    make_blocked=0.0,
    packed=0.4 * MS,
    unpacked=0.4 * MS,
    cores=8.0,
    steps=100_000,
)


def test_a_step_is_bound_by_its_slowest_part() -> None:
    assert COST.with_workers(1) == pytest.approx(60.4 * MS, rel=0.01)
    assert COST.with_workers(4) == pytest.approx(40.4 * MS, rel=0.01)
    assert replace(COST, cores=1.0).with_workers(4) == pytest.approx(100.8 * MS, rel=0.01)
    assert replace(COST, batches=4).with_workers(4) == pytest.approx(60.4 * MS, rel=0.01)


def test_a_short_training_pays_for_the_start() -> None:
    assert replace(COST, steps=10).with_workers(2) == pytest.approx(50.4 * MS, rel=0.01)


@given(cores=st.floats(0, 64), made=st.floats(0, 1e9), count=st.integers(1, 16))
def test_a_step_with_workers_is_never_shorter_than_the_training(
    cores: float, made: float, count: int
) -> None:
    cost = replace(COST, cores=cores, make_cpu=made)
    assert cost.with_workers(count) >= cost.without_wait
    assert cost.gain(count) == cost.now / cost.with_workers(count)


def offered(
    fetch_ms: float, rest_ms: float, cores: int, others: float = 0.0, tree_cores: float = 1.0
) -> FixOption:
    """For a loader without workers of a step of that much fetching."""
    row = {
        "time": 1500 * MS,
        "worker": -1,
        "batches": 1000,
        "sized": 1000,
        "fetch": round(1000 * fetch_ms) * MS,
        "cpu": 1000 * MS,
    }
    telemetry = telemetry_table(
        **{
            "cpu.utilization": 100 * (tree_cores + others) / cores,
            "cpu.cores": cores,
            "processes.cpu": 100.0 * tree_cores,
        }
    )
    run = make_run(
        1000,
        phases={"input_wait": fetch_ms, "forward": rest_ms},
        loaders=({"id": 1, "num_workers": 0, "start_method": "fork", "role": "train"},),
        workers=worker_table(row),
        telemetry=telemetry,
        cpu_count=cores,
        input_cpu=round(fetch_ms * MS),
    )
    found = option(WORKERS, Facts(run, None))
    assert found is not None
    return found


def test_workers_are_offered_where_they_shorten_the_step() -> None:
    assert offered(60, 40, cores=4).override is not None


def test_threads_that_make_batches_are_not_counted_as_the_steps_own() -> None:
    """A dataset whose operators keep 13 of 16 cores: of a step of 153 ms 136 are its own."""
    assert offered(136, 17, cores=16, tree_cores=13.1).override is not None
    # Where the step itself takes the cores, workers would have to share them.
    shared = offered(17, 136, cores=16, others=8.0, tree_cores=15.9)
    assert "would gain nothing" in shared.why_not


def test_batches_that_take_no_longer_than_handing_them_over_are_left_where_they_are() -> None:
    found = offered(0.5, 1.5, cores=4)
    assert found.override is None
    assert found.why_not == (
        "3 workers would gain nothing: a batch takes 500 µs to make and 800 µs to hand over, 4.0 "
        "cores are left for both, and the step would take 2.0 ms instead of 2.0 ms"
    )


def test_workers_bring_nothing_where_others_take_the_cores() -> None:
    found = offered(4, 6, cores=2, others=1.0)
    assert found.override is None
    assert "1.0 cores are left for both" in found.why_not
    assert offered(4, 6, cores=2).override is not None


def test_what_is_not_known_is_no_reason_against_workers() -> None:
    facts = Facts(make_run(phases={"input_wait": 60, "forward": 40}, loaders=({"num_workers": 0},)))
    assert step_cost(facts) is None
    assert LEAST_GAIN > 1


def test_a_worker_that_shares_cores_with_a_step_of_several_threads_is_half_as_fast() -> None:
    """Measured on two cores: 1.1 times as long a step as without, of 54 % fetching."""
    shared = replace(
        COST, without_wait=46.0 * MS, training_cpu=92.0 * MS, make_cpu=54.0 * MS, cores=2.0
    )
    assert shared.gain(1) == pytest.approx(0.92, abs=0.01)
    assert replace(shared, cores=4.0).gain(1) == pytest.approx(1.84, abs=0.01)
    assert replace(shared, training_cpu=46.0 * MS).gain(1) == pytest.approx(1.84, abs=0.01)
    # Workers that wait for a disk take no core.
    assert replace(shared, make_cpu=0.1, make_blocked=54.0 * MS).gain(1) > 1.7
