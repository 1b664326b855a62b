"""Findings of traces: what profiling and other processes change."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.analysis.model import GapCause
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Confidence, Finding, Severity
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.gpu.idle import counts_all
from perftui.facts.step.judged_step import JudgedStep, judged_step, phase_shares, unprofiled
from perftui.facts.step.steps import StepBreakdown
from perftui.facts.step.trace_steps import trace_steps
from perftui.run.columns import BACKWARD, FORWARD, PHASES
from perftui.trace.formats import load_trace
from perftui.trace.model import Trace
from tests.core.diagnosis.runs import (
    MS,
    ON_GPU,
    Seen,
    make_run,
    run_of,
    step_table,
    telemetry_table,
)
from tests.core.diagnosis.stories import (
    CALL,
    busy,
    diagnosed,
    finding_of,
    found,
    launching,
    on_another_device,
    reasons,
    synchronising,
    training,
    waiting,
    warming_up,
)
from tests.traces.builder import SINGLE, WORKERS, TraceBuilder, ms, us
from tests.traces.events import Event, call, cpu, frame, gpu, mark, trace_of

IN_MAIN_THREAD = {"phases": {"input_wait": 30, "forward": 70}, "loaders": ({"num_workers": 0},)}


def test_waiting_for_the_device_is_named_with_the_operator_and_the_line() -> None:
    finding = finding_of(synchronising(300), "sync-bound")
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.LOW)
    assert finding.sentence == (
        "aten::item at train.py:31 makes the CPU wait for the GPU; the GPU then idles 300 µs of "
        "each 1.0 ms step (30 %)."
    )
    assert (finding.cost_ns, finding.step_ns, finding.steps) == (300_000, MS, 4)
    places = [fact.place for fact in finding.facts if fact.place]
    assert {place.source for place in places} == {"train.py:31"}
    assert {place.step for place in places} <= {0, 1, 2, 3}
    assert len({place.step for place in places}) == len(places)


def test_only_the_device_of_the_budget_is_counted() -> None:
    alone = finding_of(synchronising(300), "sync-bound")
    beside = finding_of(on_another_device(synchronising(300)), "sync-bound")
    assert [(f.label, f.value) for f in beside.facts] == [(f.label, f.value) for f in alone.facts]
    alone = finding_of(launching(kernels=60, every=16), "launch-bound")
    both = on_another_device(launching(kernels=60, every=16), every=16)
    assert finding_of(both, "launch-bound").sentence == alone.sentence


def test_a_count_of_gaps_that_was_cut_is_said_to_be_one(monkeypatch) -> None:
    monkeypatch.setattr("perftui.analysis.gpu_idle.gaps.MOST", 3)
    finding = finding_of(synchronising(300), "sync-bound")
    assert next(fact.value for fact in finding.facts if fact.label == "gaps") == "at least 3"


@pytest.mark.parametrize(("most", "all_counted"), [(7, False), (8, True)])
def test_gaps_are_counted_for_each_device(most: int, all_counted: bool, monkeypatch) -> None:
    monkeypatch.setattr("perftui.analysis.gpu_idle.gaps.MOST", most)
    facts = Facts(None, on_another_device(synchronising(300), every=700).analysis())
    assert sorted(Counter(gap.device for gap in facts.analysis.gaps).values()) == [4, 7]
    assert counts_all(facts) is all_counted


def test_many_steps_give_high_confidence_and_an_only_one_no_more_than_a_warning() -> None:
    finding = finding_of(synchronising(300, steps=20), "sync-bound")
    assert (finding.confidence, finding.would_raise_confidence) == (Confidence.HIGH, "")
    finding = finding_of(warming_up(5000), "sync-bound")
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.LOW)
    for run in (None, make_run(phases={"forward": 1}, **ON_GPU)):
        finding = finding_of(synchronising(300, steps=1), "sync-bound", run)
        assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.LOW)
    top = diagnosed(waiting(300, steps=1)).top
    assert (top.rule, top.severity) == ("input-in-main-thread", Severity.WARNING)


def test_launches_into_an_empty_queue_are_counted() -> None:
    finding = finding_of(launching(every=16), "launch-bound")
    empty = next(fact for fact in finding.facts if fact.label == "launches into an empty queue")
    assert empty.value == 100


@pytest.mark.parametrize(("forward", "line"), [(10, 9), (2, 14)])
def test_what_backward_launches_is_placed_where_forward_calls_it(forward: int, line: int) -> None:
    inner = "torch/autograd/graph.py:9 _engine_run_backward"
    seen = [Seen(at * 100, 100, 14, BACKWARD, inner=inner) for at in range(40)]
    seen += [Seen(4000 + at * 100, 100, 9, FORWARD) for at in range(forward)]
    run = run_of(step_table(60, {"forward": 30, "backward": 70}), *seen, **ON_GPU)
    finding = finding_of(launching(every=16), "launch-bound", run)
    assert finding.place.line == line


@pytest.mark.parametrize(
    ("story", "helps"),
    [
        (launching(every=16), "use CUDA graphs, torch.compile or larger batches"),
        (
            launching(every=16).optimizer_step(us(10)),
            "use CUDA graphs, torch.compile, fused optimizers or larger batches",
        ),
        (launching(kernels=99, every=16), "use a larger batch, or several steps in a CUDA graph"),
        (launching(length=10, every=16), "use torch.compile for less host work per launch"),
    ],
    ids=["many short", "many short of a training", "few", "long"],
)
def test_number_and_length_of_kernels_choose_what_helps(story: TraceBuilder, helps: str) -> None:
    assert finding_of(story, "launch-bound").advice == helps


@pytest.mark.parametrize(("in_graph", "severity"), [(49, Severity.CRITICAL), (50, Severity.INFO)])
def test_what_is_launched_beside_cuda_graphs_is_a_hint(in_graph: int, severity: Severity) -> None:
    """Of 100 kernels a step; those of the graph come by one call, without a gap."""

    def step(t: TraceBuilder) -> None:
        t.step().launch("fused", us(4), api="cudaGraphLaunch")
        call = t.spans[-2]
        for _ in range(in_graph - 1):
            t.kernel("fused", us(4), call)
        t.pause(us(4 * in_graph))
        for _ in range(100 - in_graph):
            t.launch("add", us(4), call=us(16))
        t.end()

    finding = finding_of(TraceBuilder().repeat(4, step), "launch-bound")
    assert finding.severity is severity
    assert ("into the CUDA graphs" in finding.advice) is (severity is Severity.INFO)


def test_a_trace_without_steps_that_only_synchronizes_does_not_wait_for_its_launches() -> None:
    """What follows ``torch.cuda.synchronize()`` is launched late anyway, as far as is known."""
    rules = {}
    for name in ("cudaDeviceSynchronize", "aten::nonzero"):
        story = TraceBuilder()
        for _ in range(3):
            for _ in range(10):
                story.launch("add", us(2), call=us(20))
            story.launch("gemm", us(600))
            if name == "aten::nonzero":
                story.op(name).sync().close()
            else:
                story.call(name, us(600), "synchronisation")
        story.launch("add", us(2))
        rules[name] = found(story, "sync-bound") is not None
    assert rules == {"cudaDeviceSynchronize": False, "aten::nonzero": True}


def test_launching_names_the_line_that_stacks_tell() -> None:
    story = training()
    for _ in range(4):
        story.step()
        for _ in range(10):
            story.frame("train.py(12): main").op("aten::add", us(60)).launch("add", us(10)).close()
        story.end()
    place = finding_of(story, "launch-bound").place
    assert place.source == "train.py:12"


def test_a_busy_device_is_healthy_unless_a_tenth_computes_nothing() -> None:
    finding = finding_of(busy(0.91), "healthy")
    assert "the GPU computes 910 µs of each 1.0 ms step (91 %)" in finding.sentence
    assert found(busy(0.79), "healthy") is None
    judged = diagnosed(busy(0.9))
    assert [each.rule for each in judged.findings] == ["compute-bound", "largest-part"]
    assert reasons(judged)["healthy"] == "python takes 10 % of the step"


def test_a_device_busy_with_waiting_for_others_is_not_called_healthy() -> None:
    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().launch("gemm", us(300), call=CALL, starts=begin)
        t.all_reduce(us(700), starts=begin + us(300)).at(begin + ms(1)).end()

    diagnosis = diagnosed(training().repeat(3, step))
    assert (diagnosis.top.rule, diagnosis.top.cost_ns) == ("communication-exposed", us(700))
    assert found(diagnosis, "healthy") is None


def test_fetching_in_the_main_thread_shows_in_a_trace_alone() -> None:
    finding = diagnosed(waiting(300)).top
    assert (finding.rule, finding.severity) == ("input-in-main-thread", Severity.CRITICAL)
    assert finding.fixes == ()


def test_workers_are_told_by_the_loader_that_feeds_the_steps() -> None:
    """What an evaluation before the steps does is no matter."""
    for inside, before, rule in (
        (WORKERS, SINGLE, "input-bound"),
        (SINGLE, WORKERS, "input-in-main-thread"),
    ):
        diagnosis = diagnosed(waiting(300, loader=inside).at(-us(100)).data_wait(us(1), before))
        assert [finding.rule for finding in diagnosis.findings] == [rule]
        assert "input-in-main-thread" not in reasons(diagnosis)
    diagnosis = diagnosed(waiting(300).at(us(1500)).data_wait(us(1), WORKERS))
    assert [f.rule for f in diagnosis.findings] == ["input-bound"]
    unknown = "the loader's num_workers was not recorded"
    assert reasons(diagnosis)["input-in-main-thread"] == unknown


def test_steps_shorter_than_a_nanosecond_are_no_steps() -> None:
    story = training().step(0).at(us(1)).step(1).at(0).launch("gemm", us(1), call=CALL, starts=0)
    assert story.analysis().steps == ()
    assert {finding.steps for finding in diagnosed(story).findings} == {0}


def test_a_wait_behind_queued_work_costs_what_the_gpu_waits() -> None:
    run = make_run(**IN_MAIN_THREAD, **ON_GPU)
    exposed = diagnosed(waiting(300), run).top
    assert (exposed.rule, exposed.cost_ns) == ("input-in-main-thread", 30 * MS)
    assert exposed.confidence is Confidence.HIGH
    hidden = diagnosed(waiting(300, hidden=True), run)
    assert found(hidden, "input-in-main-thread") is None
    assert hidden.top.rule == "compute-bound"
    # The bar of the step shows how long the training thread waits: 30 ms, not 20.
    whole, part = (diagnosed(waiting(wait), run).top for wait in (300, 200))
    assert whole.sentence.startswith("The training spends 30 ms ")
    assert "of the training thread" not in {fact.label for fact in whole.facts}
    assert part.sentence.startswith("The GPU spends 20 ms ")
    facts = {fact.label: fact.value for fact in part.facts}
    assert (facts["mean wait"], facts["of the training thread"]) == (20 * MS, 30 * MS)


def test_costs_of_a_run_and_its_window_are_ranked_together() -> None:
    run = make_run(
        phases={"input_wait": 0.12, "forward": 0.88},
        loaders=({"num_workers": 2},),
        **ON_GPU,
        telemetry=telemetry_table(**{"gpu0.memory_used": 99.0, "gpu0.memory_total": 100.0}),
    )
    story = synchronising(300)
    for step in range(4):
        story.at(ms(step) + us(900)).data_wait(us(90), WORKERS)
    found_rules = [finding.rule for finding in diagnosed(story, run).findings]
    assert {"sync-bound", "memory-pressure"} <= set(found_rules)
    assert found_rules.index("sync-bound") < found_rules.index("memory-pressure")


def test_many_short_waits_cost_what_they_take_from_the_host() -> None:
    """Of each wait the host loses all, though the GPU is soon done: it never gets ahead."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step()
        for _ in range(20):
            t.frame("train.py(18): norms").op("aten::norm")
            t.launch("reduce", us(3), call=CALL, starts=t.now).pause(us(20)).close()
            t.op("aten::item").copy("DtoH", us(1), 4, call=CALL, starts=t.now).sync(us(10))
            t.close().close()
        t.at(begin + us(1000)).end()

    story = training().repeat(4, step)
    finding = finding_of(story.launch("gemm", us(1), call=CALL, starts=story.now), "sync-bound")
    assert finding.sentence == (
        "aten::item at train.py:18 makes the CPU wait for the GPU 20 times a step; the GPU then "
        "idles 240 µs of each 1.0 ms step (24 %)."
    )
    assert "launch-bound" in finding.parts


def test_the_end_of_the_loop_is_no_step() -> None:
    story = TraceBuilder()
    story.repeat(3, lambda one: one.step().optimizer(ms(2)).end())
    assert _numbers(story) == [0, 1, 2]
    story.step().data_wait(ms(1)).end()
    assert _numbers(story) == [0, 1, 2]
    story.step().data_wait(ms(1)).optimizer(ms(2)).end()
    assert _numbers(story) == [0, 1, 2, 3, 4]


def _numbers(story: TraceBuilder) -> list[int]:
    steps = trace_steps.or_none(Facts(None, story.analysis()))
    return [one.step.index for one in steps.each]


def test_a_window_without_the_training_tells_nothing_of_its_phases() -> None:
    story = TraceBuilder().step().data_wait(ms(1)).op("aten::select", ms(1)).end().end()
    within = story.analysis()
    assert not {"forward", "backward", "optimizer"} & set(phase_shares(Facts(None, within)))
    story = TraceBuilder().step().data_wait(ms(1), SINGLE).end().end()
    with pytest.raises(UnknownError, match="no profiled step shows"):
        phase_shares(Facts(None, story.analysis()))


TEN_DAYS = 10 * 24 * 3600 * 1e6
"""us, as events have them."""


STORIES = {
    "waits": lambda: synchronising(600, steps=6),
    "launches": lambda: launching(kernels=30, length=3),
    "data": lambda: waiting(600, steps=6),
    # A GPU that works 3 ms of 10.
    "no steps": lambda: training().repeat(
        6, lambda t: t.op("aten::mm").launch("gemm", us(500)).close().pause(ms(1.2))
    ),
    # Half of each step lies between the phases.
    "no GPU": lambda: training().repeat(
        6, lambda t: t.step().forward(us(500)).op("aten::mm", us(1)).pause(us(499)).end()
    ),
}
WRONG_TIMES = {
    "an operator days away": cpu("aten::add", TEN_DAYS, 5),
    "a call days before": cpu("aten::add", -TEN_DAYS, 5),
    "a kernel days away": gpu("gemm", TEN_DAYS, 5),
    "a step days away": mark("ProfilerStep#99", TEN_DAYS, 1000),
    "an operator that lasts days": cpu("aten::add", 100, TEN_DAYS, tid=9),
    "a kernel that lasts days": gpu("gemm", 100, TEN_DAYS, stream=9),
    "a wait that lasts days": cpu("aten::item", 100, TEN_DAYS),
    "a fetch that lasts days": mark(f"enumerate(DataLoader)#{SINGLE}.__next__", 100, TEN_DAYS),
    "a collective that lasts days": gpu("ncclDevKernel_AllReduce", 100, TEN_DAYS, stream=9),
    "an allocation that lasts days": call("cudaMalloc", 100, TEN_DAYS),
    "a frame that lasts days": frame("train.py(1): main", 100, TEN_DAYS),
    "a step that lasts days": mark("ProfilerStep#99", 100, TEN_DAYS, tid=9),
    "a duration below zero": gpu("gemm", 100, -TEN_DAYS, stream=9),
}
PAIRS = [
    (story, wrong)
    for story in STORIES
    for wrong, event in WRONG_TIMES.items()
    if event["cat"] not in ("kernel", "cuda_runtime") or story != "no GPU"
]
"""The first kernel of a trace, or call of CUDA, makes it one of a GPU."""


def judged(trace: Trace) -> tuple[tuple[Finding, ...], JudgedStep]:
    facts = Facts(None, analyse(trace))
    return diagnosis(facts).findings, judged_step(facts)


def of_events(events: list[Event]) -> tuple[tuple[Finding, ...], JudgedStep]:
    return judged(trace_of(*events, deviceProperties=[{"id": 0, "name": "H200"}]))


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_order_of_events_changes_nothing(story: Callable[[], TraceBuilder], seed: int) -> None:
    """But for which of two ranges that begin and end together is inside the other."""
    events = story().events()
    expected, step = of_events(events)
    np.random.default_rng(seed).shuffle(events)  # type: ignore[arg-type]
    findings, shuffled = of_events(events)
    assert shuffled.parts == step.parts
    costs = [(one.rule, one.severity, one.cost_ns) for one in findings]
    assert costs == [(one.rule, one.severity, one.cost_ns) for one in expected]
    assert expected[0].severity is not Severity.HEALTHY


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_stream_and_a_thread_that_do_next_to_nothing_change_nothing(
    story: Callable[[], TraceBuilder],
) -> None:
    events = story().events()
    expected, step = of_events(events)
    beside = [cpu("aten::empty", 100, 0.001, tid=99)]
    if step.on_device:
        beside.append(gpu("Memset (Device)", 100, 0.001, cat="gpu_memset", stream=99))
    findings, again = of_events([*events, *beside])
    assert [one.rule for one in findings] == [one.rule for one in expected]
    assert findings[0].cost_ns == pytest.approx(expected[0].cost_ns, abs=us(2))
    for part in step.parts:
        assert again.part(part.name) == pytest.approx(part.ns, abs=us(2))


@pytest.mark.parametrize(("story", "wrong"), PAIRS)
def test_a_wrong_time_makes_neither_health_nor_a_step_of_days(story: str, wrong: str) -> None:
    events = STORIES[story]().events()
    expected, step = of_events(events)
    findings, disturbed = of_events([*events, WRONG_TIMES[wrong]])
    assert disturbed.of.mean <= 2 * step.of.mean
    assert Severity.HEALTHY not in {one.severity for one in findings}
    assert findings[0].rule == expected[0].rule
    assert findings[0].cost_ns <= disturbed.of.mean


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_file_that_is_cut_says_the_same(tmp_path: Path, share: float) -> None:
    events = synchronising(600, steps=12).events()
    expected, step = of_events(events)
    text = json.dumps({"traceEvents": events})
    path = tmp_path / "cut.json"
    path.write_text(text[: round(share * len(text))])
    findings, cut = judged(load_trace(path))
    assert findings[0].rule == expected[0].rule
    assert findings[0].severity is not Severity.HEALTHY
    assert findings[0].share == pytest.approx(expected[0].share, abs=0.1)
    assert cut.of.mean == pytest.approx(step.of.mean, rel=0.2)


@pytest.mark.parametrize("story", [name for name in STORIES if name != "no GPU"])
@pytest.mark.parametrize("hours", [0.01, 5])
def test_a_kernel_that_outlasts_steps_is_no_health(story: str, hours: float) -> None:
    """It may be true, of a collective that hangs: so its time counts."""
    lasting = gpu("gemm", 100, hours * 3600e6, stream=9)
    findings, _ = of_events([*STORIES[story]().events(), lasting])
    assert Severity.HEALTHY not in {one.severity for one in findings}


TIME = st.integers(0, 50) | st.integers(0, 10**9)
PARTS = (COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES, *(cause.value for cause in GapCause))


def breakdown(parts: dict[str, int]) -> StepBreakdown:
    mean = sum(parts.values())
    return StepBreakdown(30, mean, tuple(parts.items()), mean, mean, mean, mean)


def parts(window: dict[str, int], run: dict[str, int], host: dict[str, int] | None = None):
    """Those that are not 0."""
    found = unprofiled(breakdown(window), breakdown(run), host)
    return {name: ns for name, ns in found.items() if ns}


@given(
    st.dictionaries(st.sampled_from(PARTS), TIME),
    st.dictionaries(st.sampled_from(PHASES), TIME, min_size=1),
    st.none() | st.dictionaries(st.sampled_from(PHASES), TIME),
)
def test_parts_sum_to_the_step_of_the_run(
    window: dict[str, int], run: dict[str, int], host: dict[str, int] | None
) -> None:
    found = unprofiled(breakdown(window), breakdown(run), host)
    assert sum(found.values()) == sum(run.values())
    assert all(ns >= 0 for ns in found.values())
    assert not found[GapCause.PROFILER.value]


def test_a_shorter_step_idles_less_and_first_of_all_launches_less() -> None:
    window = {COMPUTE: 300, "launch-bound": 200, "python": 100, "profiler": 50}
    run = {"forward": 500}
    assert parts(window, run) == {COMPUTE: 300, "launch-bound": 100, "python": 100}
    assert parts(window, {"forward": 400}) == {COMPUTE: 300, "launch-bound": 50, "python": 50}
    assert parts(window, {"forward": 200}) == {COMPUTE: 200}


def test_a_longer_step_waits_where_the_training_thread_does() -> None:
    window = {COMPUTE: 300, "data loader wait": 10, "launch-bound": 90}
    run = {"input_wait": 200, "forward": 100, "other": 300}
    host = {"input_wait": 10, "forward": 290, "other": 100}
    assert parts(window, run, host) == {
        COMPUTE: 300,
        "launch-bound": 90,
        "data loader wait": 200,
        "other": 10,
    }


def test_the_host_waits_no_longer_than_the_run_says() -> None:
    window = {COMPUTE: 200, "data loader wait": 300, "python": 100}
    run = {"input_wait": 50, "forward": 250}
    assert parts(window, run, {"input_wait": 300, "forward": 300}) == {
        COMPUTE: 200,
        "data loader wait": 33,
        "python": 67,
    }


def test_what_nothing_explains_is_in_all_of_the_step() -> None:
    assert parts({COMPUTE: 90, "python": 10}, {"forward": 200}) == {COMPUTE: 180, "python": 20}
