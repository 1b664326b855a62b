"""The rank that holds up the others, and collectives that nothing hides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity
from perftui.facts.fact import Facts
from perftui.facts.ranks.collectives import collectives_of_ranks
from perftui.run.reader import RankSnapshot, RunSnapshot
from tests.core.diagnosis.runs import MS, event_table, make_run, step_table
from tests.core.diagnosis.stack_runs import stack_table
from tests.core.diagnosis.stories import CALL, diagnosed, reasons, training
from tests.traces.builder import TraceBuilder, ms, us

EVEN = {"forward": 40, "backward": 60}


def run_of(*phases: dict[str, float], **wrapper: Any) -> RunSnapshot:
    """A run with a rank for each of ``phases`` (ms), all wrapped alike."""
    wrappers = [{"name": "DistributedDataParallel", "count": 1, "arguments": wrapper}]
    events = event_table(events=(("settings", {"wrappers": wrappers}),))
    ranks = tuple(
        RankSnapshot(number, step_table(40, parts), events, ())
        for number, parts in enumerate(phases)
    )
    return replace(make_run(), ranks=ranks)


def with_windows(run: RunSnapshot, directory: Path, *collective_ms: float) -> RunSnapshot:
    """Each rank with a window whose backward waits so long in a collective."""
    ranks = []
    for rank, waits in zip(run.ranks, collective_ms, strict=True):
        path = directory / f"{rank.rank}.pt.trace.json"
        window(waits).write(path)
        ranks.append(replace(rank, windows=(path,)))
    return replace(run, ranks=tuple(ranks))


def window(collective: float, micro_batches: int = 1) -> TraceBuilder:
    """Steps of 100 ms on the CPU; so many ms of them in a collective, in parts, one for each
    backward pass."""
    each = ms(collective / micro_batches)
    computing = ms((100 - collective) / micro_batches)

    def step(t: TraceBuilder) -> None:
        t.step()
        for _ in range(micro_batches):
            t.backward().op("aten::mm", computing)
            t.range("gloo:all_reduce", each).close()
        t.end()

    return TraceBuilder().repeat(3, step)


def said(run: RunSnapshot, rule: str, trace: TraceBuilder | None = None) -> Finding | None:
    facts = Facts(run, trace.analysis() if trace else None)
    return next((one for one in diagnosis(facts).findings if one.rule == rule), None)


@pytest.mark.parametrize(
    ("late_by", "collective", "first"),
    [(30, 90, "straggler"), (15, 90, "communication-exposed")],
)
def test_who_is_late_is_said_before_the_waiting_that_it_causes(
    late_by: int, collective: int, first: str
) -> None:
    run = run_of({**EVEN, "backward": 60 + late_by}, {**EVEN, "other": late_by})
    found = diagnosis(Facts(run, window(collective).analysis(), 0)).findings
    assert found[0].rule == first
    assert {one.rule for one in found} >= {"straggler", "communication-exposed"}


def test_the_rank_that_comes_late_is_named_with_its_line() -> None:
    waiting, late = {**EVEN, "backward": 90}, {**EVEN, "other": 30}
    run = run_of(waiting, late)
    stacks = stack_table(*((at * 130, 30, "/home/a/train.py", 12) for at in range(40)))
    run = replace(run, ranks=(run.ranks[0], replace(run.ranks[1], stacks=stacks)))
    for number in (0, 1):
        found = next(iter(diagnosis(Facts(run, None, number)).findings))
        assert (found.rule, found.severity) == ("straggler", Severity.CRITICAL)
        assert found.cost_ns == 30 * MS
        assert found.sentence == (
            "Rank 1 holds up the others for 30 ms of each 130 ms step (23 %), 30 ms of it in "
            "its own code outside the model (train.py:12 in main)."
        )
        assert found.place is not None
        assert (found.place.rank, found.place.file, found.place.line) == (
            1,
            "/home/a/train.py",
            12,
        )


def test_the_line_is_one_that_the_other_ranks_have_not() -> None:
    """All make their batches at line 5, for 40 ms; one of them counts words for another 30."""
    run = run_of({"forward": 40, "other": 40, "backward": 90}, {**EVEN, "other": 70})
    batches = [(at * 170, 40, "/home/a/train.py", 5) for at in range(40)]
    words = [(at * 170 + 40, 30, "/home/a/train.py", 12) for at in range(40)]
    waiting = replace(run.ranks[0], stacks=stack_table(*batches))
    late = replace(run.ranks[1], stacks=stack_table(*sorted([*batches, *words])))
    found = said(replace(run, ranks=(waiting, late)), "straggler")
    assert found is not None
    assert found.place is not None
    assert (found.place.rank, found.place.line) == (1, 12)


@pytest.mark.parametrize(
    ("late", "severity"), [(5.2, None), (5.3, Severity.INFO), (12, Severity.WARNING)]
)
def test_a_rank_that_is_hardly_late_is_not_named(late: float, severity: Severity | None) -> None:
    run = run_of({**EVEN, "backward": 60 + late}, {**EVEN, "input_wait": late})
    found = said(run, "straggler")
    assert (found.severity if found else None) is severity


def test_one_process_alone_holds_up_nobody() -> None:
    assert said(run_of(EVEN), "straggler") is None


def test_a_slow_backward_pass_is_seen_by_who_waits_least_in_collectives(tmp_path: Path) -> None:
    """Backward takes all of them the same time: two wait in it for the third."""
    run = with_windows(run_of(EVEN, EVEN, EVEN), tmp_path, 35, 5, 36)
    assert collectives_of_ranks(Facts(run)) == {0: 35 * MS, 1: 5 * MS, 2: 36 * MS}
    found = said(run, "straggler")
    assert found is not None
    assert found.cost_ns == 30 * MS
    assert "Rank 1 holds up the others for 30 ms" in found.sentence
    assert "30 ms of it in backward" in found.sentence


def test_a_rank_waits_no_longer_for_another_than_it_waits_at_all(tmp_path: Path) -> None:
    run = with_windows(run_of(EVEN, EVEN), tmp_path, 60, 5)
    alone = said(run, "straggler")
    of_its_window = said(run, "straggler", window(40))
    assert alone is not None
    assert of_its_window is not None
    # The step of its window takes 100 ms, 40 of them in the collective; backward takes 60 of all.
    assert of_its_window.cost_ns < alone.cost_ns
    assert of_its_window.cost_ns == pytest.approx(60 * 40 / 100 * MS, rel=0.01)


def test_ranks_that_wait_alike_are_told_what_they_exchange(tmp_path: Path) -> None:
    run = with_windows(run_of(EVEN, EVEN), tmp_path, 35, 35)
    found = said(run, "communication-exposed", window(35))
    assert found is not None
    assert (found.severity, found.cost_ns) == (Severity.WARNING, 21 * MS)
    assert found.sentence == (
        "The training spends 21 ms of each 100 ms step (21 %) in collectives, with no "
        "computation to hide them."
    )


@pytest.mark.parametrize(("share", "told"), [(8, False), (9, True)])
def test_little_communication_is_not_reported(share: float, told: bool) -> None:
    """Backward is 60 % of the step: 8 % of it are 4.8 % of the step, 9 % are 5.4 %."""
    assert (said(run_of(EVEN), "communication-exposed", window(share)) is not None) is told


def test_gradients_that_are_reduced_for_each_micro_batch_are_distinguished() -> None:
    found = said(run_of(EVEN, EVEN), "reduce-each-micro-batch", window(40, micro_batches=4))
    assert found is not None
    assert found.cost_ns == 18 * MS
    assert found.sentence == (
        "Gradients are reduced in 4 backward passes of each step, where one would do: 18 ms of "
        "each 100 ms step (18 %) in collectives."
    )
    once = said(run_of(EVEN, EVEN), "reduce-each-micro-batch", window(40))
    assert once is None


@pytest.mark.parametrize(("collective", "severity"), [(11, None), (11.2, Severity.WARNING)])
def test_reducing_for_each_counts_from_a_twentieth_of_the_step_on(
    collective: float, severity: Severity | None
) -> None:
    """Backward is 60 % of the step; of four reductions three are lost."""
    story = window(collective, micro_batches=4)
    found = said(run_of(EVEN, EVEN), "reduce-each-micro-batch", story)
    assert (found.severity if found else None) is severity


def exchanging(collective: int) -> TraceBuilder:
    """Steps of 1 ms on a GPU that computes and then reduces for so many us, without phases."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().launch("gemm", us(1000 - collective), call=CALL, starts=begin)
        t.all_reduce(us(collective), starts=begin + us(1000 - collective))
        t.at(begin + ms(1)).end()

    return training().repeat(20, step)


@pytest.mark.parametrize(
    ("collective", "severity"),
    [
        (49, None),
        (50, Severity.INFO),
        (99, Severity.INFO),
        (100, Severity.WARNING),
        (300, Severity.CRITICAL),
    ],
)
def test_collectives_on_a_gpu_count_from_their_limits_on(
    collective: int, severity: Severity | None
) -> None:
    judged = diagnosed(exchanging(collective))
    found = next((one for one in judged.findings if one.rule == "communication-exposed"), None)
    assert (found.severity if found else None) is severity
    assert found is None or found.cost_ns == us(collective)
    assert reasons(judged)["reduce-each-micro-batch"] == "the trace marks no backward passes"


def test_without_a_window_nothing_is_said_of_collectives() -> None:
    rules = {"communication-exposed", "reduce-each-micro-batch"}
    judged = diagnosis(Facts(run_of(EVEN, EVEN)))
    assert not rules & {one.rule for one in judged.findings}


def test_how_the_model_is_wrapped_is_judged() -> None:
    found = said(run_of(EVEN, EVEN, find_unused_parameters=True), "unused-parameters-search")
    assert found is not None
    assert found.severity is Severity.INFO
    assert said(run_of(EVEN, find_unused_parameters=False), "unused-parameters-search") is None
    assert said(make_run(), "unused-parameters-search") is None


@pytest.mark.parametrize(
    ("devices", "told"), [("[0, 1, 2, 3]", True), ("[0]", False), ("[]", False)]
)
def test_data_parallel_over_several_gpus(devices: str, told: bool) -> None:
    wrappers = [{"name": "DataParallel", "count": 1, "arguments": {"device_ids": devices}}]
    run = make_run(events=(("settings", {"wrappers": wrappers}),))
    found = said(run, "wrong-parallelism")
    assert (found is not None) is told
    if found is not None:
        assert (found.severity, found.cost_ns) == (Severity.CRITICAL, 0)
        assert "DataParallel drives 4 GPUs" in found.sentence


def test_without_a_note_of_wrappers_none_is_judged() -> None:
    for run in (make_run(), make_run(events=(("settings", {"wrappers": None}),)), run_of(EVEN)):
        assert said(run, "wrong-parallelism") is None
