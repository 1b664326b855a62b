from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Confidence, Diagnosis, Severity
from perftui.facts.cpu.machine import has_gpu, machine_use
from perftui.facts.fact import Facts
from perftui.facts.notes import notes
from perftui.facts.source.lines import LineShare
from perftui.facts.source.source_calls import matching_line
from perftui.facts.step.steps import step_count, step_kind
from perftui.run.columns import PHASES
from perftui.run.layout import RunLayout
from perftui.run.manifest import Status
from perftui.run.table import Table
from tests.core.diagnosis.runs import (
    MS,
    ON_GPU,
    card_samples,
    joined,
    make_run,
    step_table,
    telemetry_table,
)
from tests.core.diagnosis.stories import busy, finding_of, forward_passes, reasons

IN_MAIN = {"id": 1, "num_workers": 0, "dataset": "Images", "file": "/p/train.py", "line": 7}
WORKERS = {**IN_MAIN, "num_workers": 2}


def judged(computing: float = 1.0, **run):
    """With a window whose forward passes spend that share of their time in operators; on a GPU
    without any."""
    window = None if "reserved" in run else forward_passes(computing).analysis()
    return diagnosis(Facts(make_run(**run), window))


def waiting(wait: float, loader: dict[str, Any]) -> Diagnosis:
    """Of steps of 100 ms, so many of them in that loader."""
    return judged(phases={"input_wait": wait, "forward": 100 - wait}, loaders=(loader,))


def rules(diagnosis) -> list[str]:
    return [finding.rule for finding in diagnosis.findings]


def test_fetching_in_the_main_thread_is_named_with_its_cost() -> None:
    found = judged(phases={"input_wait": 21, "forward": 6, "backward": 8}, loaders=(IN_MAIN,)).top
    assert found.sentence == (
        "The training spends 21 ms of each 35 ms step (60 %) waiting for data: the loader runs "
        "in the main thread (num_workers=0)."
    )
    assert (found.rule, found.severity) == ("input-in-main-thread", Severity.CRITICAL)
    assert (found.cost_ns, found.step_ns, found.steps) == (21 * MS, 35 * MS, 40)
    assert found.best_speedup == pytest.approx(2.5)
    assert found.confidence is Confidence.HIGH
    assert found.fixes == ("loader-workers",)
    place = next(fact.place for fact in found.facts if fact.label == "num_workers")
    assert place.source == "/p/train.py:7"


def _epochs(count: int, start: float) -> Table:
    usual = {"input_wait": 0.1, "forward": 9.9}
    first = step_table(1, {**usual, "loader_start": start})
    return joined(*[first, step_table(39, usual)] * count)


def test_workers_that_start_anew_with_each_epoch_are_named_but_not_a_single_start() -> None:
    loader = {**WORKERS, "persistent_workers": False}
    found = judged(steps=_epochs(4, 400), loaders=(loader,)).top
    assert (found.rule, found.severity) == ("loader-start", Severity.CRITICAL)
    # The first start is none that could be saved: three, in the 160 steps but for the warm-up.
    assert found.cost_ns == 3 * 400 * MS // found.steps
    assert found.sentence.endswith(
        "2 workers start again with each epoch, unless persistent_workers=True keeps them."
    )
    assert rules(judged(steps=_epochs(1, 4000), loaders=(loader,))) == ["compute-bound"]


def test_waiting_without_a_known_loader_names_no_cause_and_no_fix() -> None:
    diagnosis = judged(phases={"input_wait": 4, "forward": 6})
    assert (diagnosis.top.rule, diagnosis.top.cost_ns) == ("input-bound", 4 * MS)
    assert diagnosis.top.sentence.endswith(" for data.")
    assert diagnosis.top.fixes == ()
    not_judged = [a.rule for a in diagnosis.abstentions]
    assert [rule for rule in not_judged if rule.startswith("input")] == ["input-in-main-thread"]


def test_no_finding_is_critical_before_twenty_steady_steps() -> None:
    phases = {"input_wait": 60, "forward": 40}
    early = judged(count=19, phases=phases, loaders=(IN_MAIN,), status=Status.RUNNING)
    assert (early.top.severity, early.top.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert early.top.would_raise_confidence == "1 more steady step"
    assert early.progress == "collecting, 19 of 20 steady steps"
    later = judged(count=20, phases=phases, loaders=(IN_MAIN,), status=Status.RUNNING)
    assert (later.top.severity, later.progress) == (Severity.CRITICAL, "")


def test_no_steps_are_no_data_and_never_healthy() -> None:
    for count, progress in (
        (0, "waiting for the first training step"),
        (1, "warming up, 1 step so far"),
    ):
        diagnosis = judged(count=count, phases={"forward": 10}, status=Status.RUNNING)
        assert diagnosis.top is None
        assert diagnosis.progress == progress
        assert reasons(diagnosis)["healthy"].startswith("0 of 2")


def test_steps_without_a_length_are_not_judged_and_a_run_that_is_over_waits_for_nothing() -> None:
    diagnosis = judged(phases={"forward": 0})
    assert diagnosis.top is None
    assert {a.reason for a in diagnosis.abstentions} == {"the recorded steps take no time"}
    assert judged(count=1).progress == ""


def test_of_several_ranks_the_one_judged_is_said() -> None:
    run = make_run()
    ranks = tuple(replace(run.ranks[0], rank=number) for number in range(8))
    assert notes(Facts(run, None)) == ()
    told = notes(Facts(replace(run, ranks=ranks), None))
    assert told == ("8 training processes: the diagnosis covers rank 0",)


def test_a_script_that_changed_since_is_said_since_its_lines_are_not_looked_up(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text("pass")
    known = {"cwd": str(tmp_path), "events": (("process", {"argv0": "train.py"}),)}
    (told,) = notes(Facts(make_run(started_ns=script.stat().st_mtime_ns - 1, **known), None))
    assert told == "train.py changed since the run began: its lines are not looked up"
    assert notes(Facts(make_run(started_ns=script.stat().st_mtime_ns, **known), None)) == ()
    root = tmp_path / "run"
    RunLayout(root).sources.mkdir(parents=True)
    (RunLayout(root).sources / "train.py").write_text("model.eval()")
    kept = Facts(make_run(started_ns=script.stat().st_mtime_ns - 1, root=root, **known), None)
    assert notes(kept) == ()
    assert matching_line(kept, r"eval\(") == LineShare(str(script), 1)


def test_a_slow_start_does_not_count_and_operators_all_the_time_are_no_health() -> None:
    steps = joined(
        step_table(3, {"input_wait": 900, "forward": 10}), step_table(40, {"forward": 10})
    )
    diagnosis = judged(steps=steps, loaders=(IN_MAIN,))
    assert rules(diagnosis) == ["compute-bound"]
    assert diagnosis.steady_steps == 40
    diagnosis = judged(phases={"input_wait": 0.1, "forward": 12, "backward": 20, "other": 0.9})
    assert rules(diagnosis) == ["compute-bound"]
    assert diagnosis.findings[0].sentence.startswith(
        "The CPU is the limit: operators take 32 ms of each 33 ms step (97 %)"
    )
    assert reasons(diagnosis)["healthy"].endswith("what this CPU could achieve is not known")


def test_python_within_the_model_is_told_from_its_operators() -> None:
    found = judged(0.7, phases={"forward": 100}).top
    assert (found.rule, found.cost_ns) == ("python-bound", 30 * MS)
    assert found.parts == ("python in forward",)


def test_neither_operators_that_nobody_saw_nor_the_driver_s_samples_are_health() -> None:
    """It counts a device as busy through gaps shorter than its samples, and in communication."""
    unseen = diagnosis(Facts(make_run()))
    assert unseen.findings == ()
    sampled = judged(**ON_GPU, telemetry=card_samples(50))
    assert sampled.top is None
    for each in (unseen, sampled):
        assert reasons(each)["healthy"] == "no profiled step shows the operators"


@pytest.mark.parametrize(("longest", "healthy"), [(10, True), (600, False)])
def test_steps_of_which_a_few_hold_the_time_are_not_called_healthy(
    longest: int, healthy: bool
) -> None:
    few = joined(step_table(39, {"forward": 10}), step_table(1, {"forward": longest}))
    run = make_run(steps=joined(few, few), gpus=("H200",))
    found = diagnosis(Facts(run, busy(0.95).analysis()))
    assert ("healthy" in rules(found)) is healthy


def test_much_evaluation_is_not_called_healthy() -> None:
    steps = joined(step_table(60, {"forward": 20}), step_table(40, {"forward": 20}, kind="eval"))
    assert rules(judged(steps=steps))[0] == "evaluation"


def test_memory_that_runs_short_costs_nothing_and_is_a_word_while_no_allocation_fails() -> None:
    samples = {"telemetry": card_samples(97), "allocated": 1, "alloc_retries": 1}
    finding = finding_of(judged(**ON_GPU, **samples), "memory-pressure")
    assert finding.cost_ns == 0
    assert "of its 100 GiB" in finding.sentence
    found = {each.rule: each for each in judged(**ON_GPU, telemetry=card_samples(99)).findings}
    assert found["memory-pressure"].severity is Severity.INFO
    assert "tried again" not in found["memory-pressure"].sentence


def cards(mine: int | None, *used: float, busy: tuple[float, ...] = ()):
    """Telemetry of several cards of 100 bytes, on one of which the run holds memory."""
    values: dict[str, float] = {}
    for device, held in enumerate(used):
        values |= {f"gpu{device}.memory_used": held, f"gpu{device}.memory_total": 100.0}
        values[f"gpu{device}.process_memory"] = 10.0 if device == mine else float("nan")
        values[f"gpu{device}.utilization"] = busy[device] if busy else 95.0
    return telemetry_table(**values)


def test_memory_is_judged_on_the_trainings_own_card_where_that_is_known() -> None:
    diagnosis = judged(**ON_GPU, telemetry=cards(0, 20, 99))
    assert rules(diagnosis) == []
    diagnosis = judged(**ON_GPU, telemetry=cards(1, 20, 99))
    assert set(rules(diagnosis)) == {"memory-pressure"}
    assert diagnosis.findings[0].sentence.startswith("GPU 1 has used 99 B")
    diagnosis = judged(**ON_GPU, telemetry=cards(None, 20, 99))
    assert diagnosis.findings == ()
    assert reasons(diagnosis)["memory-pressure"] == "which of 2 GPUs the training uses is not known"
    alone = judged(**ON_GPU, telemetry=cards(None, 99))
    assert rules(alone) == ["memory-pressure"]


def test_a_busy_card_of_others_does_not_make_a_training_healthy() -> None:
    telemetry = cards(0, 20, 20, busy=(10.0, 99.0))
    assert rules(judged(**ON_GPU, telemetry=telemetry)) == ["memory-headroom"]


def test_a_training_on_the_processor_is_judged_so_beside_cards() -> None:
    """The machine has a card, which others fill."""
    phases = {"input_wait": 60, "forward": 40}
    telemetry = cards(None, 99)
    found = judged(phases=phases, loaders=(IN_MAIN,), gpus=("H200",), telemetry=telemetry)
    assert rules(found)[0] == "input-in-main-thread"
    assert found.findings[0].confidence is Confidence.HIGH
    assert found.findings[0].fixes == ("loader-workers",)
    assert rules(judged(gpus=("H200",), telemetry=telemetry)) == ["compute-bound"]


def test_memory_held_on_a_card_says_that_there_is_one() -> None:
    assert has_gpu(Facts(make_run(count=0, gpus=("H200",)), None)) is None
    assert has_gpu(Facts(make_run(gpus=("H200",)), None)) is False
    assert has_gpu(Facts(make_run(telemetry=cards(0, 20)), None)) is True


def test_samples_of_another_host_are_not_this_ones() -> None:
    run = make_run(telemetry=telemetry_table(**{"cpu.utilization": 50.0}))
    here = machine_use(Facts(run, None))
    assert here.machine_cores == 4
    elsewhere = replace(run, telemetry={"other": run.telemetry["box"], "box": Table()})
    assert machine_use(Facts(elsewhere, None)).machine_cores is None


def test_on_a_gpu_a_wait_of_the_host_is_not_certain_and_pinning_may_answer_it() -> None:
    phases = {"input_wait": 60, "forward": 40}
    found = judged(phases=phases, loaders=(IN_MAIN,), **ON_GPU).top
    assert found.confidence is Confidence.MEDIUM
    assert "profiled window" in found.would_raise_confidence
    for pinned, fixes in ((False, ("loader-workers", "loader-pin")), (True, ("loader-workers",))):
        loader = {**IN_MAIN, "pin_memory": pinned}
        found = judged(phases=phases, loaders=(loader,), **ON_GPU).top
        assert found.fixes == fixes


OF_DEVICES = {
    "allocator-churn",
    "copies-exposed",
    "created-on-cpu",
    "initialisation",
    "launch-bound",
    "many-small-copies",
    "pageable-copies",
    "per-parameter-loop",
    "sync-bound",
}


def test_rules_about_devices_ask_for_a_window_where_there_is_a_device() -> None:
    assert not OF_DEVICES & {one.rule for one in judged().abstentions}
    said = reasons(judged(**ON_GPU))
    assert {said[rule] for rule in OF_DEVICES} == {"no window has been profiled"}


@pytest.mark.slow
@given(st.lists(st.integers(0, 100), min_size=len(PHASES), max_size=len(PHASES)))
def test_costs_are_parts_of_the_step(parts) -> None:
    diagnosis = judged(phases=dict(zip(PHASES, parts, strict=True)), loaders=(IN_MAIN,))
    step = sum(parts) * MS
    assert sum(finding.cost_ns for finding in diagnosis.findings) <= step
    assert all(finding.step_ns == step for finding in diagnosis.findings)


@pytest.mark.parametrize(("kind", "subject"), [("infer", "Inference"), ("eval", "Evaluation")])
def test_a_run_without_training_is_judged_by_the_steps_it_has(kind: str, subject: str) -> None:
    steps = step_table(40, {"input_wait": 21, "forward": 14}, kind=kind)
    loader = {**IN_MAIN, "role": kind}
    facts = Facts(make_run(steps=steps, loaders=({"id": 2, "num_workers": 4}, loader)), None)
    found = diagnosis(facts).top

    assert step_count(facts) == 40
    assert notes(facts) == (
        f"no training step was recorded: the steps are those of {subject.lower()}",
    )
    assert (found.rule, found.cost_ns) == ("input-in-main-thread", 21 * MS)
    assert found.sentence.startswith(f"{subject} spends ")


def test_inference_that_computes_is_reported_as_such() -> None:
    found = judged(steps=step_table(40, {"forward": 33, "other": 1}, kind="infer")).top
    assert found.rule == "compute-bound"
    assert "take 33 ms of each 34 ms step (97 %)" in found.sentence


@pytest.mark.parametrize(("evaluated", "has_finding"), [(9, False), (120, True)])
def test_a_run_that_is_mostly_something_else_than_training_says_so(
    evaluated: int, has_finding: bool
) -> None:
    training = step_table(50, {"forward": 10, "backward": 10})
    generation = step_table(evaluated, {"forward": 10}, kind="eval")
    facts = Facts(make_run(steps=joined(training, generation)), None)

    told = [note for note in notes(facts) if "without a backward pass" in note]

    assert (step_kind(facts), step_count(facts)) == ("train", 50)
    assert told == (
        [
            "55 % of the time of all steps, 1.2 s, is in 120 steps without a backward pass "
            "(evaluation, generation): the diagnosis covers the training steps"
        ]
        if has_finding
        else []
    )
