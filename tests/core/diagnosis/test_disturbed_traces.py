"""What a verdict must not depend on: the order of events, idle streams, times that are wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from perftui.analysis.analyse import analyse
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity
from perftui.facts.fact import Facts
from perftui.facts.step.judged_step import JudgedStep, judged_step
from perftui.trace.formats import load_trace
from perftui.trace.model import Trace
from tests.core.diagnosis.stories import launching, synchronising, training, waiting
from tests.traces.builder import SINGLE, TraceBuilder, ms, us
from tests.traces.events import Event, call, cpu, frame, gpu, mark, trace_of

TEN_DAYS = 10 * 24 * 3600 * 1e6
"""us, as events have them."""


def without_steps() -> TraceBuilder:
    """A GPU that works 3 ms of 10."""
    return training().repeat(
        6, lambda t: t.op("aten::mm").launch("gemm", us(500)).close().pause(ms(1.2))
    )


def on_the_cpu() -> TraceBuilder:
    """Steps without a GPU, half of them between the phases."""
    return training().repeat(
        6, lambda t: t.step().forward(us(500)).op("aten::mm", us(1)).pause(us(499)).end()
    )


STORIES = {
    "waits": lambda: synchronising(600, steps=6),
    "launches": lambda: launching(kernels=30, length=3),
    "data": lambda: waiting(600, steps=6),
    "no steps": without_steps,
    "no GPU": on_the_cpu,
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
