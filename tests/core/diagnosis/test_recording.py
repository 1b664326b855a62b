"""What a recording does not show: first uses, missing kernels, an unrecorded GPU, few steps."""

import json
from typing import Any

import pytest

from perftui.analysis.analyse import analyse
from perftui.diagnosis.model import Confidence, Severity
from perftui.facts.fact import Facts
from perftui.facts.notes import notes
from perftui.report.report import make_report
from perftui.report.subject import Subject
from perftui.report.text import render
from perftui.run.columns import BACKWARD
from perftui.run.manifest import Status
from tests.core.diagnosis.runs import MS, Seen, make_run, run_of, source_of, step_table
from tests.core.diagnosis.stories import (
    DEVICES,
    H100,
    SGEMM,
    diagnosed,
    finding_of,
    found,
    reasons,
    training,
)
from tests.traces.builder import TraceBuilder, ms, us
from tests.traces.events import load


def first_use(loading: int, steps: int = 3) -> TraceBuilder:
    """Steps of 10 ms in which the first launch takes so many us."""
    story = training()
    for _ in range(steps):
        story.step().launch("gemm", ms(10) - us(loading), call=us(loading)).sync().end()
    return story


def starting(start: int, steps: int, pause: int = 0) -> TraceBuilder:
    """A first launch of ``start`` ms and steps of 10 ms told by the optimizer alone, in float32."""

    def step(t: TraceBuilder) -> None:
        t.launch("sgemm", us(9900), call=us(2)).sync().optimizer_step(us(10))
        t.at(t.now + us(90))

    story = training().op("aten::t", us(1)).pause(ms(pause))
    story.launch("sgemm", ms(1), call=ms(start)).sync()
    return story.repeat(steps + 1, step)


def test_idle_time_that_work_waits_in_a_queue_is_named() -> None:
    story = training()
    for _ in range(3):
        begin = story.now
        story.step().launch("gemm", ms(1)).launch("gemm", ms(1), starts=begin + ms(8))
        story.at(begin + ms(9)).end()
    top = diagnosed(story).top
    assert (top.rule, top.parts) == ("largest-part", ("queue wait",))
    assert "with work queued: it waits for something that is not in the trace" in top.sentence


def test_a_trace_of_copies_without_operators_is_judged() -> None:
    story = training()
    for _ in range(3):
        story.step().copy("HtoD", ms(1), 4096, pinned=False).sync().end()
    assert diagnosed(story).findings


def losing(lost: int, kept: int, pause: int = 100, **fields: Any) -> TraceBuilder:
    """A step whose first launches have no kernels; ``pause`` us lie behind each kernel's launch."""
    story = TraceBuilder(fields=fields).step()
    for number in range(lost):
        story.call("cudaLaunchKernel", us(5), correlation=1_000 + number).pause(us(45))
    for _ in range(kept):
        story.launch("gemm", us(50)).pause(us(pause))
    return story.end()


@pytest.mark.parametrize(
    ("lost", "pause", "severity"),
    [(9, 60, Severity.INFO), (10, 60, Severity.WARNING), (9, 100, Severity.WARNING)],
)
def test_few_missing_kernels_of_a_busy_device_are_said_beside_the_verdict(
    lost: int, pause: int, severity: Severity
) -> None:
    judged = diagnosed(losing(lost, 100 - lost, pause))
    finding = found(judged, "trace-incomplete")
    assert finding.severity is severity
    assert (len(judged.findings) > 1) is (severity is Severity.INFO)


def test_launches_without_kernels_leave_idle_time_unjudged() -> None:
    diagnosis = diagnosed(
        losing(10, 90, cuda_driver_version=12040, cuda_runtime_version=12060, cupti_version=24)
    )
    finding = found(diagnosis, "trace-incomplete")
    assert finding.severity is Severity.WARNING
    assert finding.sentence == (
        "10 of 100 kernel launches in the trace (10 %, the first ones) have no kernel in it: "
        "what looks like idle time may be work that was not recorded."
    )
    facts = {fact.label: fact.value for fact in finding.facts}
    assert (facts["CUDA driver"], facts["CUDA runtime"], facts["CUPTI"]) == ("12040", "12060", "24")
    assert finding.advice == "record again; CUDA 12.6 to 12.9 drop kernels at the start of windows"
    assert [one.rule for one in diagnosis.findings] == ["trace-incomplete"]
    reason = "10 of 100 kernel launches have no kernel in the trace"
    for rule in ("launch-bound", "sync-bound", "initialisation", "largest-part"):
        assert reasons(diagnosis)[rule] == reason


@pytest.mark.parametrize(
    ("fields", "is_blamed"),
    [
        ({"cuda_runtime_version": 12090}, True),
        ({"cuda_runtime_version": 12050}, False),
        ({"cuda_runtime_version": 13000}, False),
        ({"baseTimeNanoseconds": 1_733_000_000 * 10**9}, True),
        ({"baseTimeNanoseconds": 1_733_000_000 * 10**9, "hip_runtime_version": 60443483}, False),
        ({"baseTimeNanoseconds": 1_700_000_000 * 10**9}, False),
        ({}, False),
    ],
)
def test_cuda_is_blamed_where_it_can_be_of_that_version(
    fields: dict[str, Any], is_blamed: bool
) -> None:
    assert ("CUDA" in finding_of(losing(10, 90, **fields), "trace-incomplete").advice) is is_blamed


def cut(share: float, **fields: Any) -> Facts:
    """A file whose kernels stand behind all operators, as Kineto writes them, cut off there."""
    story = TraceBuilder(fields=fields)
    story.repeat(4, lambda t: t.step().op("aten::mm").launch("gemm", ms(1)).close().sync().end())
    events = sorted(story.events(), key=lambda event: event.get("cat") == "kernel")
    raw = json.dumps({**fields, "traceEvents": events}).encode()
    begin = raw.index(b'"kernel"')
    return Facts(None, analyse(load(raw[: begin + int(share * (len(raw) - begin))])))


def calling(lasting: float, name: str = "cudaMalloc", **more: Any) -> TraceBuilder:
    """Ten ms of a trace without kernels, so many of them in a call; ``more`` calls of it come
    after all work."""
    story = (
        TraceBuilder()
        .range("encode")
        .op("aten::mm")
        .call("cudaLaunchKernel", us(5), correlation=1)
        .close()
    )
    story.call(name, ms(lasting)).pause(ms(9.99 - lasting)).op("aten::t", us(5)).close()
    return story.call("cudaDeviceSynchronize", ms(more.get("last", 0)))


def test_without_kernels_waits_are_no_cost() -> None:
    finding = finding_of(calling(4, "cudaDeviceSynchronize"), "host-calls")
    assert finding.sentence == (
        "The host waits for the GPU for 4.0 ms of the recorded 10 ms (40 %): 1 call of "
        "cudaDeviceSynchronize in encode."
    )
    assert (finding.cost_ns, finding.severity) == (0, Severity.WARNING)
    assert found(calling(0.1, last=10), "host-calls") is None


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_file_that_is_cut_off_before_its_last_kernel_has_no_verdict_about_idle_time(
    share: float,
) -> None:
    facts = cut(share, **DEVICES)
    finding = finding_of(facts, "trace-incomplete")
    assert finding.sentence.startswith("The file is cut off before its last kernels")
    assert finding.advice == "copy the file again; if it was written like that, record again"
    rules = [one.rule for one in diagnosed(facts).findings]
    assert rules == [*(["host-calls"] if not share else []), "trace-incomplete"]
    assert found(cut(1.0, **DEVICES), "trace-incomplete") is None


def test_work_before_the_first_kernel_that_is_not_there_is_missing() -> None:
    story = training().launch("gemm", ms(10), starts=ms(8)).at(ms(20)).op("aten::t", us(1))
    finding = finding_of(story, "trace-incomplete")
    assert finding.sentence.startswith("Work was queued for 8.0 ms before the first recorded")
    assert found(story, "largest-part") is None


def test_kernels_are_judged_from_the_first_one_on() -> None:
    """Float32 products on an H100, behind 8 ms of older work; with lost kernels nothing is said."""
    story = TraceBuilder(fields={"deviceProperties": [H100]})
    story.op("aten::mm").launch(SGEMM, ms(10), starts=ms(8)).launch("add", ms(2)).close()
    story.at(ms(20)).op("aten::t", us(1))
    finding = finding_of(story, "matmul-fp32")
    assert finding.step_ns == pytest.approx(ms(12), abs=us(60))
    assert found(story, "trace-incomplete") is not None
    assert "lacks the device's activity" in reasons(story)["launch-bound"]
    story.call("cudaLaunchKernel", us(1), correlation=1_000)
    assert "1 of 3 kernel launches" in reasons(story)["matmul-fp32"]


def test_launches_of_a_graph_that_is_captured_run_nothing() -> None:
    story = training().step().call("cudaStreamBeginCapture_v10000", us(2))
    for number in range(50):
        story.call("cudaLaunchKernel", us(5), correlation=1_000 + number)
    story.call("cudaStreamEndCapture_v10000", us(2)).launch("gemm", ms(1)).end()
    assert found(story, "trace-incomplete") is None


@pytest.mark.parametrize("api", ["cuda", "hip", "cu"])
def test_capturing_a_graph_is_initialisation_and_launches_around_it_are_not(api: str) -> None:
    story = training().launch("gemm", us(100), call=us(2)).sync()
    for begin, end in (("Begin", "End"), ("IsCapturing", "GetCaptureInfo")):
        story.call(f"{api}Stream{begin}Capture", us(2))
        story.repeat(40, lambda t: t.op("aten::add", us(50)))
        story.call(f"{api}Stream{end}Capture", us(2)).launch("gemm", us(100), call=us(2)).sync()
    judged = {finding.rule: finding.cost_ns for finding in diagnosed(story).findings}
    for rule in ("initialisation", "launch-bound"):
        assert judged[rule] == pytest.approx(ms(2), abs=us(100))


def test_a_trace_that_lost_all_kernels_says_so() -> None:
    finding = finding_of(losing(10, 0), "trace-incomplete")
    assert finding.sentence.startswith("None of the 10 kernel launches in the trace has its kernel")


HOURS = 3_600_000_000_000


@pytest.mark.parametrize("wrong", ["kernel", "operator", "step"])
def test_an_event_that_lasts_for_days_makes_no_breakdown_of_days(wrong: str) -> None:
    story = training()
    for _ in range(20):
        story.step().op("aten::mm", us(900)).launch("gemm", us(100)).end()
    end = story.now
    if wrong == "kernel":
        story.kernel("gemm", 48 * HOURS, starts=us(500))
    elif wrong == "operator":
        story.at(us(500)).op("aten::mm", 48 * HOURS)
    else:
        story.at(end).step(48 * HOURS)
    for trace in (story, TraceBuilder([s for s in story.spans if "Step#" not in s.name])):
        judged = diagnosed(trace)
        assert found(judged, "healthy") is None
        assert all(finding.step_ns <= end + us(100) for finding in judged.findings)
        assert judged.findings[0].step_ns > 0


def convolving(
    first: int, operator: str = "aten::cudnn_convolution", later: int = 20
) -> TraceBuilder:
    """Convolutions of 1 ms after one of ``first``, in a call that calls another."""

    def call(t: TraceBuilder, lasting: int) -> None:
        t.op("aten::conv2d").pause(us(10)).op(operator, lasting).pause(us(10)).close()

    story = training()
    call(story, first)
    return story.repeat(later, lambda t: call(t, ms(1)))


def test_a_gpu_that_was_not_recorded_is_said_and_not_judged() -> None:
    judged = diagnosed(convolving(ms(1)))
    assert [finding.rule for finding in judged.findings] == ["trace-incomplete"]
    assert judged.findings[0].sentence == (
        "aten::cudnn_convolution runs on a GPU, but no GPU activity was recorded: what it does "
        "is not known."
    )
    assert reasons(judged)["largest-part"] == (
        "no GPU kernels in this trace, though aten::cudnn_convolution runs on a GPU: it was not "
        "recorded"
    )


@pytest.mark.parametrize("operator", ["aten::mkldnn_convolution", "aten::cudnn_is_acceptable"])
def test_other_operators_prove_no_gpu(operator: str) -> None:
    judged = diagnosed(convolving(ms(100), operator))
    assert found(judged, "trace-incomplete") is None
    assert found(judged, "initialisation") is None
    assert judged.top.rule == "compute-bound"


def test_short_first_calls_set_nothing_up() -> None:
    story = training().op("aten::cudnn_batch_norm", ms(4.9))
    story.repeat(20, lambda t: t.op("aten::cudnn_batch_norm", us(100)))
    assert found(story, "initialisation") is None


JSON = "python3.12/json/__init__.py dumps"


def one_step(status: Status = Status.EXITED, length: int = 8000):
    half = length // 2
    seen = (Seen(0, half, 9, BACKWARD), Seen(half, half, 15, function="report", via=JSON))
    return run_of(step_table(1, {"backward": half, "other": half}), *seen, status=status)


def test_a_run_of_one_long_step_is_judged_at_low_confidence_once_it_is_over() -> None:
    finding = finding_of(one_step(), "python-bound")
    assert (finding.cost_ns, source_of(finding)) == (4000 * MS, "/p/train.py:15")
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.LOW)
    assert diagnosed(one_step(Status.RUNNING)).top is None
    assert reasons(one_step(length=2000))["python-bound"] == "0 of 2 steady steps so far"


def test_a_run_without_steps_names_where_it_was() -> None:
    seen = (Seen(0, 6000, 22, function="distance"), Seen(6000, 2000, 30))
    top = diagnosed(run_of(step_table(0, {}), *seen)).top
    assert top.sentence == (
        "The script's own code takes 8.0 s of the recorded 8.0 s (100 %), outside forward, "
        "backward and optimizer, 75 % of it at train.py:22 in distance."
    )
    assert (top.rule, top.confidence) == ("largest-part", Confidence.LOW)
    assert source_of(top) == "/p/train.py:22"


def test_a_short_run_that_paid_much_for_being_recorded_says_so() -> None:
    budget = {"overhead": 0.01}
    costly = make_run(phases={"forward": 100}, overhead=3_000_000, profile=budget)
    assert notes(Facts(costly)) == (
        "perftui 3.0 %, limit 1 %, of 4.0 s of steps: so short a run pays for its first window; "
        "its steps are judged without that cost",
    )
    heading = render(make_report(Subject(costly.root, costly))).split("\n\n")[0]
    assert heading.endswith("\nperftui 3.0 %, limit 1 %")
    cheap = make_run(phases={"forward": 100}, overhead=900_000, profile=budget)
    assert notes(Facts(cheap)) == ()
    heading = render(make_report(Subject(cheap.root, cheap))).split("\n\n")[0]
    assert "limit" not in heading
