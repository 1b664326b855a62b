"""Workers of a data loader: how many, what they would gain, and none where they cost more."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.cpu.machine import MachineFacts, machine_use, ranks_here
from perftui.facts.data_loader.loader import loader_work, training_loader
from perftui.facts.fact import Facts
from perftui.facts.step.steps import step_breakdown
from perftui.fixes.data_loader import WITHOUT_WORKERS
from perftui.fixes.fix import option
from perftui.fixes.option import FixOption, Risk
from perftui.fixes.source.patching import call_patch
from perftui.fixes.workers import (
    LEAST_CPU,
    LEAST_GAIN,
    StepCost,
    loader_no_workers,
    loader_workers,
    step_cost,
    worker_count,
    worker_cpu,
)
from perftui.run.manifest import Override
from perftui.script.program import PatchRefusedError
from tests.core.diagnosis.runs import MS, make_run, step_table, telemetry_table, worker_table
from tests.facts_given import facts_with

HEAD = "from torch.utils.data import DataLoader\n"
NONE = {"num_workers": 0}


def without(path: Path, source: str, line: int = 2) -> str:
    path.write_text(HEAD + source)
    patch = call_patch(path, line, WITHOUT_WORKERS, NONE)
    assert patch.arguments == NONE
    return patch.after.decode().removeprefix(HEAD)


WRITTEN = {
    "nothing else": ("DataLoader(data, num_workers=2)", "DataLoader(data, num_workers=0)"),
    "workers that stay": (
        "DataLoader(data, num_workers=2, persistent_workers=True)",
        "DataLoader(data, num_workers=0)",
    ),
    "all that workers have": (
        "DataLoader(data, 4, num_workers=2, prefetch_factor=4, timeout=9, shuffle=True, "
        "multiprocessing_context='fork')",
        "DataLoader(data, 4, num_workers=0, shuffle=True)",
    ),
    "a variable": (
        "DataLoader(data, num_workers=2, prefetch_factor=ahead)",
        "DataLoader(data, num_workers=0)",
    ),
    "what is off stays": (
        "DataLoader(d, num_workers=2, persistent_workers=False, prefetch_factor=None, timeout=0)",
        "DataLoader(d, num_workers=0, persistent_workers=False, prefetch_factor=None, timeout=0)",
    ),
    "by position": (
        "DataLoader(data, 4, True, None, None, 2, persistent_workers=True)",
        "DataLoader(data, 4, True, None, None, 0)",
    ),
}


@pytest.mark.parametrize(("before", "after"), WRITTEN.values(), ids=WRITTEN)
def test_what_only_workers_can_have_goes_with_them(path: Path, before: str, after: str) -> None:
    assert without(path, f"loader = {before}\n") == f"loader = {after}\n"


def test_a_loader_in_a_loop_needs_no_workers_and_what_depends_on_them_stays(path: Path) -> None:
    source = "for epoch in range(9):\n    loader = DataLoader(data, num_workers=2)\n"
    assert "num_workers=0" in without(path, source, line=3)
    source = (
        "W = 2\nloader = DataLoader(data, num_workers=W, persistent_workers=W > 0, "
        "prefetch_factor=4 if W > 0 else None)\n"
    )
    assert without(path, source, line=3) == source.replace("W = 2", "W = 0")


def test_another_loader_may_have_its_workers_from_the_same_variable(path: Path) -> None:
    source = (
        "W = 2\nloader = DataLoader(data, num_workers=W, persistent_workers=True)\n"
        "other = DataLoader(held_out, num_workers=W{})\n"
    )
    assert without(path, source.format(""), line=3).startswith(
        "W = 0\nloader = DataLoader(data, num_workers=W)\n"
    )
    with pytest.raises(PatchRefusedError, match="line 4 reads W, too"):
        without(path, source.format(", prefetch_factor=4"), line=3)


REFUSED = {
    "a start of their own": ("num_workers=2, worker_init_fn=begin", "begin would not be called"),
    "computed": ("num_workers=2, multiprocessing_context=get_context()", "is computed"),
    "unpacked": ("num_workers=2, **more", r"may come from \*\*more"),
    "a dict": ("num_workers=2, **{'persistent_workers': True}", "comes from a dict"),
    "none": ("num_workers=0", "already has these arguments"),
}


@pytest.mark.parametrize(("given", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_certain_is_refused(path: Path, given: str, why: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        without(path, f"loader = DataLoader(data, {given})\n")


def test_timeout_by_position_is_refused(path: Path) -> None:
    call = "DataLoader(d, 4, True, None, None, 2, None, False, False, 9)"
    with pytest.raises(PatchRefusedError, match="timeout is given by position"):
        without(path, f"loader = {call}\n")


def without_workers(
    script: Path, source: str, fetch: float = 1.0, line: int = 2, **more: Any
) -> FixOption:
    """For a loader whose two workers take ``fetch`` ms for a batch, in steps of 10 ms."""
    script.write_text(HEAD + source)
    row = {"time": 300 * MS, "worker": 0, "batches": 100, "sized": 100, "elapsed": 300 * MS}
    loader = {"id": 1, "num_workers": 2, "role": "train", "file": str(script), "line": line, **more}
    command = more.pop("command", ("python", "train.py"))
    run = make_run(
        steps=step_table(100, {"input_wait": 6, "forward": 4}),
        loaders=(loader,),
        workers=worker_table({**row, "fetch": round(100 * fetch * MS)}),
        cwd=str(script.parent),
        command=command,
    )
    found = option(loader_no_workers, Facts(run))
    assert found is not None
    return found


def test_no_workers_are_offered_as_override_and_as_patch(path: Path) -> None:
    source = "loader = DataLoader(data, num_workers=2, persistent_workers=True)\n"
    found = without_workers(path, source)
    assert found.title == "num_workers 2 -> 0"
    assert found.override == Override("DataLoader", NONE, str(path), 2, "loader-no-workers")
    assert found.patch.after.decode() == f"{HEAD}loader = DataLoader(data, num_workers=0)\n"
    assert found.risks == (Risk.RANDOMNESS, Risk.ORDER)


OPTION = (
    "p.add_argument('--workers', type=int, default=2)\nargs = p.parse_args()\n"
    "loader = DataLoader(data, num_workers=args.workers{})\n"
)


def test_an_option_is_given_only_where_the_call_takes_no_workers(path: Path) -> None:
    found = without_workers(path, OPTION.format(""), line=4)
    assert found.argv == ("python", "train.py", "--workers", "0")
    with_more = without_workers(path, OPTION.format(", persistent_workers=True"), line=4)
    assert with_more.argv is None
    assert b"default=0" in with_more.patch.after
    assert b"persistent" not in with_more.patch.after
    with_start = without_workers(path, OPTION.format(", worker_init_fn=begin"), line=4)
    assert (with_start.argv, with_start.patch) == (None, None)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"num_workers": 0}, "has no workers"),
        ({"num_workers": None}, "not known whether"),
        ({"is_iterable": True}, "another order"),
        ({"fetch": 6.0}, "without workers a step would take 10 ms instead of 10 ms"),
    ],
)
def test_workers_that_pay_stay(path: Path, more: dict[str, Any], why: str) -> None:
    found = without_workers(path, "loader = DataLoader(data, num_workers=2)\n", **more)
    assert (found.override, found.patch) == (None, None)
    assert why in found.why_not


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
    offered = option(loader_workers, facts)
    return None if offered.override is None else offered.override.arguments["num_workers"]


def test_what_workers_take_is_told_from_what_the_training_will_take() -> None:
    found = worker_cpu(facts_of(4, 16, used=3.0, training=1.2, busy=0.75))
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
    offered = option(loader_workers, facts_of(4, 6, used=4.0, training=1.2))
    assert offered.why_not == (
        "no core is free for more workers (a busy worker uses 1.0 of 6 cores, the training 3.0 "
        "without waiting)"
    )


def test_ranks_of_one_host_share_its_cores() -> None:
    two = facts_with(facts_of(2, 8, used=4.0, training=0.8), {ranks_here: 2})
    found = worker_cpu(two)
    assert (found.worker, found.training) == (pytest.approx(1.0), pytest.approx(2.0))
    # Six for both.
    assert wanted(two) == 3


def test_new_workers_that_take_little_are_no_risk_to_the_step() -> None:
    """0.65 of four cores are idle, and another worker would take 0.05."""
    offered = option(loader_workers, facts_of(3, 4, used=0.15, training=0.4, others=2.8))
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
    assert found.worker == LEAST_CPU


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


def test_a_step_is_bound_by_its_slowest_part_and_a_short_training_pays_for_the_start() -> None:
    assert COST.with_workers(1) == pytest.approx(60.4 * MS, rel=0.01)
    assert COST.with_workers(4) == pytest.approx(40.4 * MS, rel=0.01)
    assert replace(COST, cores=1.0).with_workers(4) == pytest.approx(100.8 * MS, rel=0.01)
    assert replace(COST, batches=4).with_workers(4) == pytest.approx(60.4 * MS, rel=0.01)
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
    found = option(loader_workers, Facts(run, None))
    assert found is not None
    return found


def test_workers_are_offered_where_they_shorten_the_step_and_not_elsewhere() -> None:
    assert offered(60, 40, cores=4).override is not None
    # A dataset whose operators keep 13 of 16 cores: of a step of 153 ms 136 are its own.
    assert offered(136, 17, cores=16, tree_cores=13.1).override is not None
    # Where the step itself takes the cores, workers would have to share them.
    shared = offered(17, 136, cores=16, others=8.0, tree_cores=15.9)
    assert "would gain nothing" in shared.why_not
    found = offered(0.5, 1.5, cores=4)
    assert found.override is None
    assert found.why_not == (
        "3 workers would gain nothing: a batch takes 500 µs to make and 800 µs to hand over, 4.0 "
        "cores are left for both, and the step would take 2.0 ms instead of 2.0 ms"
    )


def test_workers_bring_nothing_where_others_take_the_cores_as_far_as_is_known() -> None:
    found = offered(4, 6, cores=2, others=1.0)
    assert found.override is None
    assert "1.0 cores are left for both" in found.why_not
    assert offered(4, 6, cores=2).override is not None
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
