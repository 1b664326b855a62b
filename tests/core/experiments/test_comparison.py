from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.experiments import comparison
from perftui.experiments.comparison import Comparison, Verdict
from perftui.experiments.trial_verdict import MANY_STEPS
from perftui.facts.fact import Facts
from perftui.facts.step.steps import StepBreakdown, step_breakdown
from perftui.run.columns import PHASES
from perftui.run.manifest import Override
from perftui.run.reader import RunSnapshot
from tests.core.diagnosis.runs import MS, joined, make_run, step_table, telemetry_table

SLOW = {"input_wait": 20, "forward": 10, "backward": 5}
FAST = {"input_wait": 2, "forward": 10, "backward": 5}
LOADER = {"num_workers": 0, "file": "/p/train.py", "line": 3, "persistent_workers": False}
WORKERS = {**LOADER, "num_workers": 2, "persistent_workers": True}
APPLIED = ("override", {"number": 0, "outcome": "applied", "file": "/p/train.py", "line": 3})
TRY = Override("DataLoader", {"num_workers": 2, "persistent_workers": True}, "/p/train.py", 3, "w")


def mean_step(facts: Facts) -> StepBreakdown:
    found = step_breakdown(facts)
    assert found is not None
    return found


def compare(before: RunSnapshot, after: RunSnapshot) -> Comparison:
    return comparison.compare(Facts(before), Facts(after))


def forward(ms: float, count: int = 100, **run):
    return make_run(count=count, phases={"forward": ms}, **run)


def test_a_run_with_a_fix_is_set_beside_the_run_without() -> None:
    found = compare(
        make_run(count=100, phases=SLOW, loaders=(LOADER,)),
        make_run(count=100, phases=FAST, loaders=(WORKERS,), overrides=(TRY,), events=(APPLIED,)),
    )
    assert found.verdict is Verdict.FASTER
    assert found.speedup == pytest.approx(35 / 17)
    assert found.reason == "beyond noise: two runs of one program differ by up to 6.0 %"
    assert found.changes == ("num_workers 0 -> 2", "persistent_workers False -> True")
    waits = next(change for change in found.phases if change.phase == "input_wait")
    assert (waits.before, waits.after) == (20 * MS, 2 * MS)
    assert mean_step(found.before).steps_per_second == pytest.approx(1000 / 35)
    assert "one run each: no confidence interval" in found.notes
    assert "losses were not compared" in found.notes


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 50), min_size=len(PHASES), max_size=len(PHASES)),
    st.lists(st.integers(1, 50), min_size=len(PHASES), max_size=len(PHASES)),
)
def test_the_parts_of_both_sides_sum_to_their_steps(before, after) -> None:
    found = compare(
        make_run(phases=dict(zip(PHASES, before, strict=True))),
        make_run(phases=dict(zip(PHASES, after, strict=True))),
    )
    assert sum(change.before for change in found.phases) == mean_step(found.before).mean
    assert sum(change.after for change in found.phases) == mean_step(found.after).mean
    assert found.speedup == mean_step(found.before).mean / mean_step(found.after).mean


@pytest.mark.slow
@given(st.floats(1, 100), st.floats(1, 100), st.sampled_from([30, 100]))
def test_swapping_the_runs_swaps_the_verdict(before, after, count) -> None:
    swapped = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
    there = compare(forward(before, count), forward(after, count)).verdict
    back = compare(forward(after, count), forward(before, count)).verdict
    assert back is swapped.get(there, there)


@pytest.mark.parametrize(
    ("count", "after", "verdict"),
    [
        (MANY_STEPS, 94.5, Verdict.NO_CLEAR_DIFFERENCE),
        (MANY_STEPS, 94.2, Verdict.FASTER),
        (MANY_STEPS, 105.9, Verdict.NO_CLEAR_DIFFERENCE),
        (MANY_STEPS, 106.1, Verdict.SLOWER),
        (MANY_STEPS - 1, 72, Verdict.NO_CLEAR_DIFFERENCE),
        (MANY_STEPS - 1, 71, Verdict.FASTER),
    ],
)
def test_a_difference_must_exceed_what_two_equal_runs_differ_by(count, after, verdict) -> None:
    assert compare(forward(100, count), forward(after, count)).verdict is verdict


@pytest.mark.parametrize(
    ("turn", "verdict"), [(1, Verdict.FASTER), (50, Verdict.NO_CLEAR_DIFFERENCE)]
)
def test_a_difference_must_exceed_what_the_parts_of_a_run_differ_by(turn, verdict) -> None:
    """Steps of 90 and 110 ms by turns change nothing in the long run; half a run of each does."""
    turns = [step_table(turn, {"forward": ms}) for ms in (90, 110)] * (50 // turn)
    assert compare(make_run(steps=joined(*turns)), forward(90)).verdict is verdict


def test_too_few_steps_say_nothing_and_no_steps_have_no_speedup() -> None:
    found = compare(forward(100), forward(10, count=19))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason == "the second run has 19 steady steps of 20"
    assert found.speedup == pytest.approx(10)
    found = compare(forward(100), forward(10, count=0))
    assert (found.verdict, found.speedup, found.phases) == (Verdict.INCONCLUSIVE, None, ())


def busy(other: float):
    return telemetry_table(**{"cpu.utilization": 25 + other, "processes.cpu": 200.0})


@pytest.mark.parametrize(
    ("other", "after", "verdict"),
    [
        (19, 90, Verdict.FASTER),
        (21, 90, Verdict.INCONCLUSIVE),
        (21, 36, Verdict.INCONCLUSIVE),
        (21, 276, Verdict.INCONCLUSIVE),
    ],
)
def test_a_busy_host_says_nothing_however_large_the_difference(other, after, verdict) -> None:
    found = compare(forward(100), forward(after, telemetry=busy(other)))
    assert found.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert found.reason == (
            "the host was busy: other programs used 1.7 of 8 cores; repeat the second run on an "
            "idle machine"
        )
    said = "the host was busy during the second run: other programs used 1.7 of 8 cores"
    assert (said in found.notes) == (other > 20)


def test_after_two_busy_runs_both_are_to_be_repeated() -> None:
    runs = (forward(mean, telemetry=busy(21)) for mean in (100, 50))
    assert "repeat both runs" in compare(*runs).reason


def test_other_programs_on_cores_that_nobody_waits_for_make_no_busy_host() -> None:
    for pressure, verdict in ((2.0, Verdict.FASTER), (11.0, Verdict.INCONCLUSIVE)):
        samples = telemetry_table(
            **{"cpu.utilization": 75.0, "processes.cpu": 200.0, "pressure.cpu": pressure}
        )
        assert compare(forward(100, telemetry=samples), forward(90)).verdict is verdict


def test_pressure_stands_in_where_the_training_own_part_is_unknown_but_not_its_own() -> None:
    for pressure, verdict in ((9.0, Verdict.FASTER), (40.0, Verdict.INCONCLUSIVE)):
        samples = telemetry_table(**{"pressure.cpu": pressure})
        assert compare(forward(100, telemetry=samples), forward(90)).verdict is verdict
    samples = telemetry_table(
        **{"pressure.cpu": 80.0, "cpu.utilization": 100.0, "processes.cpu": 800.0}
    )
    assert compare(forward(100, telemetry=samples), forward(90)).verdict is Verdict.FASTER


def test_a_few_extreme_steps_do_not_make_a_verdict() -> None:
    extreme = joined(step_table(95, {"forward": 9}), step_table(5, {"forward": 400}))
    found = compare(forward(10), make_run(steps=extreme))
    assert found.verdict is Verdict.NO_CLEAR_DIFFERENCE
    assert "opposite directions" in found.reason
    assert (mean_step(found.after).p50, mean_step(found.after).p95) == (9 * MS, 9 * MS)


def test_one_slow_step_makes_no_verdict() -> None:
    calm, slow = step_table(121, {"forward": 10}), step_table(1, {"forward": 1500})
    half = step_table(60, {"forward": 10})
    found = compare(make_run(steps=joined(half, slow, half)), make_run(steps=calm))
    assert mean_step(found.before).mean > 22 * MS
    assert found.verdict is Verdict.NO_CLEAR_DIFFERENCE
    assert found.basis.startswith("the mean step 2.23x, 1.00x without the slowest")
    assert found.speedup == 1


def test_fewer_waits_every_few_steps_are_faster_though_the_median_stays() -> None:
    fetched = step_table(1, {"forward": 10})
    waited = step_table(1, {"input_wait": 30, "forward": 10})
    found = compare(make_run(steps=joined(*[fetched, fetched, waited] * 40)), forward(10))
    assert mean_step(found.before).p50 == 10 * MS
    assert found.verdict is Verdict.FASTER
    assert found.speedup == pytest.approx(1.875)  # 68 steps of 10 ms and 28 of 40 ms over 10 ms


def test_the_claim_is_what_the_mean_and_the_usual_step_both_vouch_for() -> None:
    slow = joined(step_table(92, {"forward": 20}), step_table(8, {"forward": 200}))
    found = compare(make_run(steps=slow), forward(10))
    assert (found.verdict, found.speedup) == (Verdict.FASTER, 2)


LARGE = {**LOADER, "batch_size": 64}


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({"loaders": (LARGE,)}, {"loaders": ({**LARGE, "batch_size": 32},)}, "batch size 64 -> 32"),
        ({"micro_batches": 4}, {"micro_batches": 2}, "micro-batches a step 4 -> 2"),
    ],
)
def test_steps_of_other_samples_are_not_compared(before, after, reason) -> None:
    found = compare(forward(10, **before), forward(5, **after))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason == f"{reason}: a step is not the same work in both runs"
    assert compare(forward(10, **before), forward(5, **before)).verdict is Verdict.FASTER


def test_it_is_said_where_samples_or_the_use_of_the_host_are_not_known() -> None:
    said = "whether a step has the same number of samples in both runs is not known"
    known, unknown = forward(10, loaders=(LARGE,)), forward(10, loaders=(LOADER,))
    assert said not in compare(known, known).notes
    assert said in compare(known, unknown).notes
    assert said in compare(unknown, known).notes
    notes = compare(forward(10), forward(10)).notes
    assert "how busy the host was during the first run is not known" in notes


def test_runs_of_more_processes_are_not_compared() -> None:
    one = forward(10)
    found = compare(replace(one, ranks=(one.ranks[0], replace(one.ranks[0], rank=1))), one)
    assert (found.verdict, found.reason.split(":")[0]) == (
        Verdict.INCONCLUSIVE,
        "training processes 2 -> 1",
    )
