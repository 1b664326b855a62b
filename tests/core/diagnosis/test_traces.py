"""Rules on traces of a device, each written as the Kineto file that a profiler would export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perftui.analysis.analyse import analyse
from perftui.analysis.model import TraceAnalysis
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Confidence, Diagnosis, Finding, Severity
from perftui.facts.fact import Facts
from perftui.trace.load import load_trace
from tests.core.diagnosis.runs import MS, ON_GPU, make_run, telemetry_table

DEVICE = {"deviceProperties": [{"id": 0, "name": "H200"}, {"id": 1, "name": "H200"}]}


class Recording:
    """Collects the events of a trace; times in us."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.launched = 0

    def cpu(self, category: str, name: str, start: float, length: float, **args: object) -> None:
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start}
            | {"dur": length, "args": args}
        )

    def kernel(
        self, launch: float, start: float, length: float, name: str = "gemm", device: int = 0
    ) -> None:
        self.launched += 1
        self.cpu("cuda_runtime", "cudaLaunchKernel", launch, 2, correlation=self.launched)
        self.events.append(
            {"ph": "X", "cat": "kernel", "name": name, "pid": device, "tid": 7, "ts": start}
            | {"dur": length, "args": {"device": device, "stream": 7, "correlation": self.launched}}
        )

    def step(self, index: int, start: float, length: float) -> None:
        self.cpu("user_annotation", f"ProfilerStep#{index}", start, length)

    def analysed(self, directory: Path) -> TraceAnalysis:
        path = directory / "trace.json"
        path.write_text(json.dumps({**DEVICE, "traceEvents": self.events}))
        return analyse(load_trace(path))

    def diagnosed(self, directory: Path, run=None) -> Diagnosis:
        return diagnosis(Facts(run, self.analysed(directory)))


def found(diagnosis: Diagnosis, rule: str) -> Finding | None:
    return next((finding for finding in diagnosis.findings if finding.rule == rule), None)


def synchronising(
    idle: float, steps: int = 4, item: str = "aten::item", first: int = 0
) -> Recording:
    """Steps of 1000 us: a kernel that the host waits for, then ``idle`` us without work."""
    recording = Recording()
    for index in range(steps):
        begin = 1000.0 * index
        recording.step(first + index, begin, 1000)
        busy = 1000 - idle
        recording.kernel(begin, begin, busy)
        recording.cpu("python_function", "train.py(31): main", begin + 3, 997)
        recording.cpu("cpu_op", item, begin + 3, 997)
        recording.cpu("cuda_runtime", "cudaStreamSynchronize", begin + 4, 996)
    recording.kernel(1000.0 * steps, 1000.0 * steps, 1)
    return recording


def test_waiting_for_the_device_is_named_with_the_operator_and_the_line(tmp_path) -> None:
    finding = found(synchronising(300).diagnosed(tmp_path), "sync-bound")
    assert finding is not None
    assert finding.severity is Severity.CRITICAL
    assert finding.confidence is Confidence.LOW
    assert finding.sentence.startswith("The GPU idles 300 µs of each 1.0 ms step (30 %)")
    assert "at train.py:31" in finding.sentence
    assert (finding.cost_ns, finding.step_ns, finding.steps) == (300_000, MS, 4)
    places = [fact.place for fact in finding.facts if fact.place]
    assert {place.source for place in places} == {"train.py:31"}
    assert {place.step for place in places} <= {0, 1, 2, 3}
    assert len({place.step for place in places}) == len(places)


def on_another_device(recording: Recording, every: float = 500.0, steps: int = 4) -> Recording:
    """Short kernels on device 1, each waited for: it idles longer, but is less busy."""
    for at in range(int(1000 * steps / every)):
        start = every * at + 5
        recording.kernel(start, start, 5, device=1)
    return recording


def test_only_the_device_of_the_budget_is_counted(tmp_path) -> None:
    alone = found(synchronising(300).diagnosed(tmp_path), "sync-bound")
    beside = found(on_another_device(synchronising(300)).diagnosed(tmp_path), "sync-bound")
    assert alone is not None
    assert beside is not None
    assert [(f.label, f.value) for f in beside.facts] == [(f.label, f.value) for f in alone.facts]


def test_kernels_of_another_device_make_no_step_launch_bound(tmp_path) -> None:
    few = launching(kernels=60, every=16)
    assert found(few.diagnosed(tmp_path), "launch-bound") is None
    both = on_another_device(few, every=16, steps=4)
    assert found(both.diagnosed(tmp_path), "launch-bound") is None


def test_a_count_of_gaps_that_was_cut_is_said_to_be_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("perftui.analysis.gaps.MOST", 3)
    monkeypatch.setattr("perftui.facts.trace_steps.MOST", 3)
    finding = found(synchronising(300).diagnosed(tmp_path), "sync-bound")
    assert finding is not None
    assert next(fact.value for fact in finding.facts if fact.label == "gaps") == "at least 3"


@pytest.mark.parametrize(
    ("idle", "severity"),
    [(49, None), (50, Severity.WARNING), (199, Severity.WARNING), (200, Severity.CRITICAL)],
)
def test_idle_after_synchronising_counts_from_its_threshold_on(tmp_path, idle, severity) -> None:
    finding = found(synchronising(idle).diagnosed(tmp_path), "sync-bound")
    assert (finding.severity if finding else None) is severity


def test_many_steps_give_high_confidence(tmp_path) -> None:
    finding = found(synchronising(300, steps=20).diagnosed(tmp_path), "sync-bound")
    assert finding is not None
    assert (finding.confidence, finding.would_raise_confidence) == (Confidence.HIGH, "")


def warming_up(*lengths: float) -> Recording:
    """Steps of such ``lengths``, and then one that synchronises."""
    recording = Recording()
    recording.launched = 100
    for number, length in enumerate(lengths):
        begin = -sum(lengths[number:])
        recording.step(number, begin, length)
        recording.kernel(begin, begin, length)
    recording.events += synchronising(300, steps=1, first=len(lengths)).events
    return recording


def test_one_steady_step_of_two_gives_no_more_than_a_warning(tmp_path) -> None:
    finding = found(warming_up(5000).diagnosed(tmp_path), "sync-bound")
    assert finding is not None
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.LOW)


def test_the_only_step_of_a_trace_gives_no_more_than_a_warning(tmp_path) -> None:
    for run in (None, make_run(**ON_GPU)):
        finding = found(synchronising(300, steps=1).diagnosed(tmp_path, run), "sync-bound")
        assert finding is not None
        assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.LOW)
    finding = waiting(300, steps=1).diagnosed(tmp_path).top
    assert finding is not None
    assert (finding.rule, finding.severity) == ("input-in-main-thread", Severity.WARNING)


def launching(kernels: int = 100, length: float = 8, every: float = 10, late: bool = True):
    """Steps of short kernels; each is launched once the last one is over, or all ahead of time."""
    recording = Recording()
    span = kernels * every
    for index in range(4):
        begin = span * index
        recording.step(index, begin, span)
        for number in range(kernels):
            start = begin + number * every + (every - length)
            launch = start - 2 if late else begin - span + number
            if late:
                recording.cpu("cpu_op", "aten::add", begin + number * every, every)
            recording.kernel(launch, start, length)
        recording.events.append(
            {"ph": "X", "cat": "gpu_user_annotation", "name": f"ProfilerStep#{index}", "pid": 0}
            | {"tid": 7, "ts": begin, "dur": span}
        )
    return recording


def test_many_short_kernels_that_come_too_slowly_are_launch_bound(tmp_path) -> None:
    finding = found(launching(every=16).diagnosed(tmp_path), "launch-bound")
    assert finding is not None
    assert finding.severity is Severity.CRITICAL
    assert "100 kernels a step, half of them no longer than 8.0 µs" in finding.sentence
    assert finding.cost_ns == 800_000
    empty = next(fact for fact in finding.facts if fact.label == "launches into an empty queue")
    assert empty.value == 100


@pytest.mark.parametrize(
    ("recording", "reason"),
    [
        (launching(kernels=99, every=16), "a step has only 99 kernels"),
        (launching(length=10, every=16), "half of its kernels last 10 µs or more"),
        (launching(length=9, every=9.9), None),  # too little idle
        (launching(every=16, late=False), None),  # queued ahead of time
    ],
    ids=["few", "long", "dense", "queued"],
)
def test_just_below_any_condition_is_not_launch_bound_and_said(tmp_path, recording, reason) -> None:
    diagnosis = recording.diagnosed(tmp_path)
    assert found(diagnosis, "launch-bound") is None
    reasons = {each.rule: each.reason for each in diagnosis.abstentions}
    if reason is None:
        assert "launch-bound" not in reasons
    else:
        assert "between launches" in reasons["launch-bound"]
        assert reason in reasons["launch-bound"]


def test_kernels_a_step_need_steps(tmp_path) -> None:
    recording = launching(every=16)
    recording.events = [e for e in recording.events if "ProfilerStep" not in e["name"]]
    reasons = {a.rule: a.reason for a in recording.diagnosed(tmp_path).abstentions}
    assert "marks no steps" in reasons["launch-bound"]


def test_a_trace_of_the_host_alone_says_nothing_of_the_device(tmp_path) -> None:
    recording = Recording()
    recording.step(0, 0, 1000)
    recording.cpu("cpu_op", "aten::mm", 10, 500)
    reasons = {a.rule: a.reason for a in recording.diagnosed(tmp_path).abstentions}
    expected = "no GPU kernels in this trace: recorded with CPU activity only"
    assert reasons["sync-bound"] == reasons["launch-bound"] == expected


def busy(share: float) -> Recording:
    recording = Recording()
    for index in range(3):
        recording.step(index, 1000.0 * index, 1000)
        recording.kernel(1000.0 * index, 1000.0 * index, 1000 * share)
    return recording


def test_a_busy_device_is_healthy(tmp_path) -> None:
    finding = found(busy(0.9).diagnosed(tmp_path), "healthy")
    assert finding is not None
    assert finding.sentence == "No bottleneck found: the GPU is busy 90 % of the time."
    below = busy(0.89).diagnosed(tmp_path)
    assert found(below, "healthy") is None


def test_a_device_busy_with_waiting_for_others_is_not_called_healthy(tmp_path) -> None:
    recording = Recording()
    for index in range(3):
        begin = 1000.0 * index
        recording.step(index, begin, 1000)
        recording.kernel(begin, begin, 300)
        recording.kernel(begin, begin + 300, 700, name="ncclDevKernel_AllReduce_Sum_f32")
    diagnosis = recording.diagnosed(tmp_path)
    assert diagnosis.top is None
    reasons = {a.rule: a.reason for a in diagnosis.abstentions}
    assert reasons["healthy"] == (
        "the GPU computes 30.0 % of the time; exposed communication takes 70 %, "
        "and no rule says why"
    )


def waiting(
    wait: float, hidden: bool = False, steps: int = 4, iterator: str = "SingleProcess"
) -> Recording:
    """Steps of 1000 us that begin with ``wait`` us in the loader, hidden behind a kernel or not."""
    recording = Recording()
    for index in range(steps):
        begin = 1000.0 * index
        recording.step(index, begin, 1000)
        name = f"enumerate(DataLoader)#_{iterator}DataLoaderIter.__next__"
        recording.cpu("user_annotation", name, begin, wait)
        start = begin if hidden else begin + wait
        recording.kernel(begin - 5 if hidden else start, start, begin + 1000 - start)
    return recording


def test_fetching_in_the_main_thread_shows_in_a_trace_alone(tmp_path) -> None:
    finding = waiting(300).diagnosed(tmp_path).top
    assert finding is not None
    assert (finding.rule, finding.severity) == ("input-in-main-thread", Severity.CRITICAL)
    assert finding.fixes == ()


def fetch(recording: Recording, iterator: str, start: float) -> Recording:
    name = f"enumerate(DataLoader)#_{iterator}DataLoaderIter.__next__"
    recording.cpu("user_annotation", name, start, 1)
    return recording


def test_workers_are_told_by_the_loader_that_feeds_the_steps(tmp_path) -> None:
    """What an evaluation before the steps does is no matter."""
    for inside, before, rule in (
        ("MultiProcessing", "SingleProcess", "input-bound"),
        ("SingleProcess", "MultiProcessing", "input-in-main-thread"),
    ):
        diagnosis = fetch(waiting(300, iterator=inside), before, -100).diagnosed(tmp_path)
        assert [finding.rule for finding in diagnosis.findings] == [rule]
        assert [abstention.rule for abstention in diagnosis.abstentions] == ["memory-pressure"]
    recording = fetch(waiting(300), "MultiProcessing", 1500)
    diagnosis = recording.diagnosed(tmp_path)
    assert [f.rule for f in diagnosis.findings] == ["input-bound"]
    reasons = {a.rule: a.reason for a in diagnosis.abstentions}
    assert reasons["input-in-main-thread"] == "the loader's num_workers was not recorded"


def test_steps_shorter_than_a_nanosecond_are_no_steps(tmp_path) -> None:
    recording = Recording()
    recording.step(0, 0, 0)
    recording.step(1, 1, 0.001)
    recording.kernel(0, 0, 1)
    diagnosis = recording.diagnosed(tmp_path)
    assert diagnosis.findings == ()


def test_a_wait_behind_queued_work_costs_nothing(tmp_path) -> None:
    loaders = ({"num_workers": 0},)
    run = make_run(phases={"input_wait": 30, "forward": 70}, loaders=loaders, **ON_GPU)
    exposed = waiting(300).diagnosed(tmp_path, run).top
    assert exposed is not None
    assert (exposed.rule, exposed.cost_ns) == ("input-in-main-thread", 30 * MS)
    assert exposed.confidence is Confidence.HIGH
    hidden = waiting(300, hidden=True).diagnosed(tmp_path, run)
    assert found(hidden, "input-in-main-thread") is None
    assert hidden.top is not None
    assert hidden.top.rule == "healthy"


def test_a_wait_partly_behind_queued_work_is_said_to_be_that_of_the_gpu(tmp_path) -> None:
    """The bar of the step shows how long the training thread waits: 30 ms, not 20."""
    loaders = ({"num_workers": 0},)
    run = make_run(phases={"input_wait": 30, "forward": 70}, loaders=loaders, **ON_GPU)
    whole, part = (waiting(wait).diagnosed(tmp_path, run).top for wait in (300, 200))
    assert whole is not None
    assert whole.sentence.startswith("The training waits 30 ms of each 100 ms step (30 %) for data")
    assert "of the training thread" not in {fact.label for fact in whole.facts}
    assert part is not None
    assert part.sentence.startswith("The GPU waits 20 ms of each 100 ms step (20 %) for data")
    facts = {fact.label: fact.value for fact in part.facts}
    assert (facts["mean wait"], facts["of the training thread"]) == (20 * MS, 30 * MS)


def test_costs_of_a_run_and_its_window_are_ranked_together(tmp_path) -> None:
    run = make_run(
        phases={"input_wait": 12, "forward": 88},
        loaders=({"num_workers": 2},),
        **ON_GPU,
        telemetry=telemetry_table(**{"gpu0.memory_used": 99.0, "gpu0.memory_total": 100.0}),
    )
    recording = synchronising(300)
    for index in range(4):
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        recording.cpu("user_annotation", name, 1000.0 * index + 900, 90)
    rules = [finding.rule for finding in recording.diagnosed(tmp_path, run).findings]
    assert rules[0] == "sync-bound"
    assert rules[-1] == "memory-pressure"
