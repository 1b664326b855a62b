"""Two traces, or a trace and a run, side by side, and the rows of their comparison."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis.model import TraceAnalysis
from perftui.experiments.comparison import NOTHING, Amount, Comparison, Verdict, compare, split
from perftui.facts.fact import Facts
from perftui.facts.step.step_tables import step_tables
from perftui.report.comparison import as_object, brief_text, text
from tests.core.diagnosis.runs import MS, make_run, step_table, telemetry_table
from tests.described import described
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
    return TraceBuilder().op("aten::mm", us(50)).repeat(steps, step).analysis()


def without_gpu(steps: int) -> TraceAnalysis:
    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().op("aten::mm", ms(3)).at(begin + ms(10)).end()

    return TraceBuilder().repeat(steps, step).analysis()


def compared(before: TraceAnalysis, after: TraceAnalysis) -> Comparison:
    return compare(Facts(None, before), Facts(None, after))


def test_two_traces_are_set_side_by_side_by_step_operator_and_kernel() -> None:
    found = compared(training(compute=ms(9)), training(compute=ms(4), adds=2))

    assert found.of_traces
    parts = {one.phase: (one.before, one.after) for one in found.phases}
    assert parts["gpu compute"] == (ms(9), ms(4) + 2 * us(100))
    for side, step in enumerate(found.steps):
        assert sum(pair[side] for pair in parts.values()) == step.mean
    assert found.verdict is Verdict.NO_CLEAR_DIFFERENCE
    assert "one trace each: no confidence interval" in found.notes
    assert any("no telemetry, losses" in note for note in found.notes)
    assert found.changes == ()
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

    found = compared(training(), TraceBuilder().repeat(24, short).analysis())
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


Work = list[tuple[int, int, int]]
"""Of each step operators by number, with us of their own and us of a kernel on a stream of its
own."""

WORKED = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 50), st.integers(1, 300)), min_size=1, max_size=6
)
WORK = st.lists(WORKED, min_size=2, max_size=4)


def worked(steps: list[Work], shapes: str = "") -> TraceAnalysis:
    """Steps of 20 ms."""
    story = TraceBuilder()
    for work in steps:
        begin = story.now
        story.step()
        for number, own, lasting in work:
            dims: dict[str, Any] = {"Input Dims": [[number, 8]]} if shapes else {}
            story.op(f"aten::op{'' if shapes else number}", **dims).pause(us(own))
            story.launch(f"kernel{number}", us(lasting), stream=number).close()
        story.at(begin + ms(20)).end()
    return story.analysis()


@settings(max_examples=15)
@given(WORK, WORK, st.integers(0, 5))
def test_listed_rows_others_and_what_was_counted_twice_are_the_whole(before, after, most) -> None:
    found = compared(worked(before), worked(after))
    for rows, whole, of in (
        (found.operators, found.operators_whole, "cpu_ns"),
        (found.kernels, found.kernels_whole, "gpu_ns"),
    ):
        listed, others = split(rows, most)
        shown = [*listed, *([others] if others else [])]
        if whole is None:
            assert shown == []
            continue
        for side in ("before", "after"):
            parts = sum(getattr(getattr(one, side), of) for one in shown)
            twice = getattr(whole, f"twice_{side}_ns")
            assert parts - twice == getattr(whole, f"{side}_ns")
            assert twice >= 0
        twice = whole.twice_after_ns - whole.twice_before_ns
        assert sum(getattr(one, of) for one in shown) - twice == whole.after_ns - whole.before_ns


@settings(max_examples=10)
@given(WORKED)
def test_the_whole_is_what_the_devices_and_the_threads_were_busy(work) -> None:
    found = compared(worked([work] * 3), worked([work] * 3))
    assert found.kernels_whole is not None
    # Each launch takes 5 us of its operator.
    assert found.operators_whole.before_ns == sum(us(own + 5) for _, own, _ in work)
    whole = found.kernels_whole
    assert whole.before_ns + whole.twice_before_ns == sum(us(lasting) for *_, lasting in work)
    assert whole.before_ns >= max(us(lasting) for *_, lasting in work)


def test_operators_are_rows_by_shape_where_both_have_recorded_them() -> None:
    before = [[(1, 10, 100), (2, 10, 100)]] * 3
    after = [[(1, 10, 100), (3, 30, 100)]] * 3
    found = compared(worked(before, "shapes"), worked(after, "shapes"))
    assert found.operators_by == "name and shapes"
    made = {one.name: (one.before.calls, one.after.calls) for one in found.operators}
    assert made == {"aten::op  [1,8]": (1, 1), "aten::op  [2,8]": (1, 0), "aten::op  [3,8]": (0, 1)}
    assert "Operators of a step by name and shapes, self CPU time" in text(found)

    mixed = compared(worked(before, "shapes"), worked(after))
    assert mixed.operators_by == "name"
    said = "operators are compared by name: only the first side has recorded shapes"
    assert mixed.table_notes == (said,)
    assert said in as_object(mixed)["notes"]


def test_operators_with_other_numbers_of_calls_come_first_and_a_single_step_is_named() -> None:
    steady, calls = [(1, 10, 9000)], [(2, 10, 100)] * 2
    found = compared(
        worked([[*steady, *calls]] * 3, "shapes"), worked([[(1, 10, 20), calls[0]]] * 3, "shapes")
    )
    assert [one.name for one in found.operators] == ["aten::op  [2,8]", "aten::op  [1,8]"]
    assert found.operators_by_cpu[0].name == "aten::op  [2,8]"
    assert found.table_notes == ()
    single = compared(training(steps=1), training(steps=1))
    assert single.table_notes == (
        "only one step of each side was profiled: times of operators may be noise",
    )


def test_all_rows_are_within_80_columns_and_end_with_the_whole() -> None:
    many = [[(number, 10, 100) for number in range(14)]] * 3
    shown = text(compared(worked(many), worked([[(0, 10, 100)]] * 3))).splitlines()
    at = shown.index("Kernels and copies of a step, most changed first")
    assert max(map(len, shown[at:])) <= 80
    table = [re.split(r"  +", line.strip()) for line in shown[at + 1 : at + 15]]
    assert table[1] == ["kernel1", "1, only before", "100 µs", "-", "-100 µs"]
    assert table[11][:3] == ["4 others", "4 -> 1", "400 µs"]
    assert table[12][0] == "ran at the same time"
    assert table[13][0] == "GPU busy"


def test_memory_loader_and_machine_stand_side_by_side() -> None:
    def run(peak: int, rss: float, busy: float) -> Facts:
        steps = step_table(
            100, {"forward": 10}, allocated=peak, reserved=2 * peak, peak_allocated=peak
        )
        use = telemetry_table(**{"processes.rss": rss, "gpu0.utilization": busy})
        return Facts(make_run(steps=steps, telemetry=use))

    found = compare(run(2 << 30, 1 << 30, 50.0), run(3 << 30, 1 << 30, 75.0))
    figures = {one.name: (one.unit, one.before, one.after) for one in found.figures}
    assert figures["peak allocated"] == ("B", 2 << 30, 3 << 30)
    assert figures["peak reserved"] == ("B", 4 << 30, 6 << 30)
    assert figures["peak host RSS"] == ("B", 1 << 30, 1 << 30)
    assert figures["GPU busy"] == ("share", 0.5, 0.75)
    lines = [re.split(r"  +", line.strip()) for line in text(found).splitlines()]
    assert ["peak allocated", "2.0 GiB", "3.0 GiB", "+1.0 GiB"] in lines
    assert ["GPU busy", "50 %", "75 %", "+25.0 points"] in lines


def test_what_only_one_side_knows_is_unknown_of_the_other_and_no_zero() -> None:
    use = telemetry_table(**{"processes.rss": 1 << 30})
    found = compare(Facts(make_run(count=100)), Facts(make_run(count=100, telemetry=use)))
    [one] = [one for one in found.figures if one.name == "peak host RSS"]
    assert (one.before, one.after) == (None, 1 << 30)
    plain = described("compare", as_object(found))
    assert [one["before"] for one in plain["figures"] if one["name"] == "peak host RSS"] == [None]
    assert re.search(r"peak host RSS +- +1.0 GiB$", text(found), re.MULTILINE)


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_others_are_the_rest(most: int) -> None:
    found = compared(worked([[(1, 9, 90), (2, 9, 90)]] * 3), worked([[(3, 9, 90)]] * 3))
    listed, others = split(found.kernels, most)
    assert (len(listed), others.name if others else None) == (
        most,
        [*(f"{rest} others" for rest in (3, 2)), "1 other", None][most],
    )
