"""Two traces, or a trace and a run, side by side."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.model import TraceAnalysis
from perftui.experiments.comparison import NOTHING, Amount, Comparison, Verdict, compare
from perftui.facts.fact import Facts
from perftui.facts.step.step_tables import step_tables
from perftui.report.comparison import as_object, brief_text, text
from tests.core.diagnosis.runs import MS, make_run
from tests.traces.builder import TraceBuilder, ms, us

GEMM = "ampere_sgemm_128x64_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"


def training(
    steps: int = 24, compute: int = ms(4), adds: int = 0, name: str = GEMM
) -> TraceAnalysis:
    """Steps of 10 ms with a product in each, and so many additions."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().pause(us(100)).op("aten::mm").pause(us(100)).launch(name, compute)
        t.at(begin + us(600)).close()
        for _ in range(adds):
            t.op("aten::add").launch(ADD, us(100)).close()
        t.at(begin + ms(10)).end()

    # What runs before the steps belongs to none of them.
    story = TraceBuilder().op("aten::mm", us(50)).repeat(steps, step)
    return story.analysis()


def without_gpu(steps: int) -> TraceAnalysis:
    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().op("aten::mm", ms(3)).at(begin + ms(10)).end()

    return TraceBuilder().repeat(steps, step).analysis()


def compared(before: TraceAnalysis, after: TraceAnalysis) -> Comparison:
    return compare(Facts(None, before), Facts(None, after))


def test_two_traces_are_set_side_by_side_step_by_step() -> None:
    found = compared(training(compute=ms(9)), training(compute=ms(4), adds=2))

    assert found.of_traces
    parts = {one.phase: (one.before, one.after) for one in found.phases}
    assert parts["gpu compute"] == (ms(9), ms(4) + 2 * us(100))
    for side, step in enumerate(found.steps):
        assert step is not None
        assert sum(pair[side] for pair in parts.values()) == step.mean
    assert found.verdict is Verdict.NO_CLEAR_DIFFERENCE
    assert "one trace each: no confidence interval" in found.notes
    assert any("no telemetry, losses" in note for note in found.notes)
    assert found.changes == ()


def test_operators_and_kernels_by_name_of_a_mean_step() -> None:
    found = compared(training(compute=ms(9)), training(compute=ms(4), adds=2))

    kernels = {one.name: (one.before, one.after) for one in found.kernels}
    assert kernels == {
        GEMM: (Amount(1, 0, ms(9)), Amount(1, 0, ms(4))),
        ADD: (NOTHING, Amount(2, 0, us(200))),
    }
    assert [one.gpu_ns for one in found.kernels] == [-ms(5), us(200)]
    operators = {one.name: (one.before.calls, one.after.calls) for one in found.operators}
    # The call before the first step is of no step.
    assert operators == {"aten::mm": (1, 1), "aten::add": (0, 2)}
    mm = next(one for one in found.operators if one.name == "aten::mm")
    assert (mm.before.gpu_ns, mm.after.gpu_ns, mm.cpu_ns) == (ms(9), ms(4), 0)


def test_many_steps_give_a_verdict_and_few_do_not() -> None:
    def short(t: TraceBuilder) -> None:
        begin = t.now
        t.step().op("aten::mm").launch(GEMM, ms(4)).close().at(begin + ms(5)).end()

    faster = TraceBuilder().repeat(24, short).analysis()
    found = compared(training(), faster)
    assert (found.verdict, found.speedup) == (Verdict.FASTER, pytest.approx(2, rel=0.01))

    few = compared(training(), training(steps=5))
    assert few.verdict is Verdict.INCONCLUSIVE
    assert few.reason.startswith("the second trace has ")
    assert few.kernels


def test_traces_on_different_clocks_are_not_compared() -> None:
    found = compared(training(), without_gpu(24))
    assert (found.verdict, found.speedup, found.phases) == (Verdict.INCONCLUSIVE, None, ())
    assert found.reason == (
        "only the first trace has GPU activity: its steps are on the GPU's clock"
    )


def test_a_trace_without_steps_is_compared_as_a_whole() -> None:
    def whole(lasting: int) -> TraceAnalysis:
        return TraceBuilder().op("aten::mm").launch(GEMM, lasting).close().analysis()

    found = compared(whole(ms(2)), whole(ms(1)))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason == (
        "these traces have no marks that show their steps: the whole traces are compared"
    )
    assert [one.gpu_ns for one in found.kernels] == [-ms(1)]

    mixed = compared(whole(ms(2)), training())
    assert mixed.reason == "the first trace has no marks that show its steps"
    assert (mixed.tables, mixed.kernels, mixed.phases) == (None, (), ())


def test_a_run_is_compared_with_a_trace_by_its_window() -> None:
    run = make_run(count=100, phases={"forward": 3})
    found = compare(Facts(run, training(compute=ms(9))), Facts(None, training(compute=ms(4))))
    assert [one.before for one in found.phases if one.phase == "gpu compute"] == [ms(9)]
    assert "only the newest window of the first run is compared" in found.notes

    without = compare(Facts(run), Facts(None, training()))
    assert without.reason == (
        "no window of the first run was profiled, and a trace has no other steps"
    )
    assert without.tables is None


def test_two_runs_keep_their_own_clock_and_have_the_work_of_their_windows() -> None:
    before = Facts(make_run(count=100, phases={"forward": 10}), training(compute=ms(9)))
    after = Facts(make_run(count=100, phases={"forward": 5}), training(compute=ms(4)))
    found = compare(before, after)
    assert not found.of_traces
    assert found.verdict is Verdict.FASTER
    forward = next(one for one in found.phases if one.phase == "forward")
    assert (forward.before, forward.after) == (10 * MS, 5 * MS)
    assert [one.gpu_ns for one in found.kernels] == [-ms(5)]


@pytest.mark.slow
@given(st.lists(st.integers(1, 400), min_size=2, max_size=5), st.integers(0, 3))
def test_what_steps_called_and_launched_sums_to_theirs(times: list[int], adds: int) -> None:
    story = TraceBuilder()
    for time in times:
        begin = story.now
        story.step().op("aten::mm").launch(GEMM, us(time)).close()
        for _ in range(adds):
            story.op("aten::add").launch(ADD, us(3)).close()
        story.at(begin + ms(1)).end()
    tables = step_tables(story.analysis())
    launched = us(sum(times[-tables.steps :])) + tables.steps * adds * us(3)
    assert int(tables.kernels.total.sum()) == launched
    assert int(tables.operators.device_self.sum()) == launched
    assert int(tables.operators.calls.sum()) == tables.steps * (1 + adds)


@pytest.mark.parametrize("make", [text, brief_text])
def test_it_is_reported_as_text(make: Callable[[Comparison], str]) -> None:
    shown = make(compared(training(compute=ms(9)), training(compute=ms(4), adds=2)))
    assert "gpu compute" in shown
    assert all(len(line) <= 140 for line in shown.splitlines())
    if make is text:
        lines = shown.splitlines()
        at = lines.index("Kernels and copies of a step, most changed first")
        gemm, add = (" ".join(line.split()) for line in lines[at + 2 : at + 4])
        assert gemm == f"{GEMM} 1 -> 1 9.0 ms 4.0 ms -5.0 ms"
        assert add == "elementwise add<float> 2, only after - 200 µs +200 µs"
        assert max(map(len, lines[at + 1 :])) <= 80


def test_it_is_reported_as_values_with_whole_names() -> None:
    found = as_object(compared(training(), training(adds=1)))
    assert (found["steps_of"], found["table_steps"]) == ("trace", (24, 24))
    assert ADD in [one["name"] for one in found["kernels"]]
