"""Tables of operators, kernels, calls and ranges, and the steps and devices of a trace."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis import kinds
from perftui.analysis.analyse import device_activities
from perftui.analysis.model import OpTable
from perftui.analysis.ops.calls import call_sums, link, op_calls, range_sums, shared_correlations
from perftui.trace.model import NONE, Trace
from tests.traces.events import analysis_of, call, cpu, frame, gpu, mark, named, trace_of


def operators(trace: Trace) -> OpTable:
    return op_calls(trace).table()


def line(table: OpTable, name: str) -> dict[str, int]:
    index = table.names.index(name)
    columns = ("calls", "cpu_total", "cpu_self", "device_total", "device_self")
    return {column: int(getattr(table, column)[index]) // 1000 for column in columns[1:]} | {
        "calls": int(table.calls[index])
    }


def test_self_time_leaves_operators_out_but_not_runtime_calls() -> None:
    trace = trace_of(
        cpu("linear", 0, 100),
        frame("forward", 5, 90),
        cpu("addmm", 10, 50),
        call("cudaLaunchKernel", 20, 10),
        cpu("relu", 70, 10),
        cpu("addmm", 200, 5, tid=2),
    )
    table = operators(trace)
    assert line(table, "linear")["cpu_self"] == 40
    assert line(table, "addmm") | {"calls": 2, "cpu_total": 55, "cpu_self": 55} == line(
        table, "addmm"
    )
    assert set(table.names) == {"linear", "addmm", "relu"}
    assert table.names[0] == "addmm"


def test_recursion_is_counted_once() -> None:
    trace = trace_of(cpu("f", 0, 100), cpu("g", 10, 80), cpu("f", 20, 30), cpu("f", 60, 10))
    table = operators(trace)
    assert line(table, "f")["cpu_total"] == 100
    assert line(table, "f")["cpu_self"] == 20 + 30 + 10
    assert line(table, "g")["cpu_self"] == 40
    assert line(table, "f")["calls"] == 3
    assert table.first_row[table.names.index("f")] == 0


def test_device_time_goes_to_the_launching_operator_and_its_callers() -> None:
    trace = trace_of(
        cpu("mm", 0, 100),
        cpu("mm", 10, 80),
        call("cudaLaunchKernel", 20, 5, correlation=1),
        call("cudaLaunchKernel", 95, 3, correlation=2),
        gpu("gemm", 200, 7, 1),
        gpu("gemm", 210, 4, 2),
    )
    table = operators(trace)
    assert line(table, "mm")["device_total"] == 11
    assert line(table, "mm")["device_self"] == 11


def test_one_graph_launch_has_many_kernels() -> None:
    trace = trace_of(
        cpu("replay", 0, 20),
        call("cudaGraphLaunch", 5, 5, correlation=9),
        gpu("a", 30, 1, 9),
        gpu("b", 31, 2, 9),
        gpu("c", 33, 3, 9, stream=8),
    )
    links = link(trace)
    assert [trace.name_of(row) for row in links.launch] == ["cudaGraphLaunch"] * 3
    assert line(operators(trace), "replay")["device_self"] == 6


def test_without_the_launch_the_external_id_leads_to_the_operator() -> None:
    trace = trace_of(
        cpu("mm", 0, 5, **{"External id": 3}),
        gpu("gemm", 10, 4, 77, **{"External id": 3}),
        gpu("lost", 20, 1, 78),
    )
    links = link(trace)
    assert links.launch.tolist() == [NONE, NONE]
    assert [trace.name_of(row) if row != NONE else "" for row in links.operator] == ["mm", ""]
    assert device_activities(trace, links)[0].unlinked == 2


def test_ids_that_two_processes_share_are_said() -> None:
    launch = call("cudaLaunchKernel", 0, 1, correlation=5)
    mine = [launch, {**launch, "tid": 2, "ts": 3}, gpu("k", 4, 1, 5)]
    assert not any("several processes" in note for note in analysis_of(*mine).notes)
    other = {**launch, "pid": 501, "ts": 2}
    (note,) = (n for n in analysis_of(*mine, other).notes if "several processes" in n)
    assert note.startswith("correlation ids shared by calls of several processes: 1;")


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), max_size=12))
def test_shared_ids_are_counted_exactly(calls: list[tuple[int, int]]) -> None:
    launches = [
        {**call("cudaLaunchKernel", at, 1, correlation=number), "pid": process}
        for at, (number, process) in enumerate(calls)
    ]
    processes = [{pid for number, pid in calls if number == each} for each in range(1, 5)]
    trace = trace_of(cpu("main", 0, 1), *launches)
    assert shared_correlations(trace) == sum(len(each) > 1 for each in processes)


def test_devices_are_kept_apart_and_overlap_counts_once() -> None:
    trace = trace_of(
        gpu("k", 0, 10),
        gpu("k", 5, 10, stream=8),
        gpu("Memcpy HtoD", 30, 2, cat="gpu_memcpy", stream=9),
        gpu("Memset", 40, 1, cat="gpu_memset"),
        gpu("forward", 0, 500, cat="gpu_user_annotation"),
        gpu("k", 3, 4, device=1),
        deviceProperties=[{"id": 0, "name": "A100"}],
    )
    first, second = device_activities(trace, link(trace))
    assert (first.device, first.name, second.device, second.name) == (0, "A100", 1, "")
    assert (first.kernel_count, first.kernel_sum) == (2, 20_000)
    assert (first.memcpy_count, first.memcpy_sum) == (1, 2_000)
    assert (first.memset_count, first.memset_sum) == (1, 1_000)
    assert (first.busy, first.span, first.idle) == (18_000, 41_000, 23_000)
    assert second.busy == 4_000


def test_kernels_are_grouped_by_name_and_category() -> None:
    table = analysis_of(
        gpu("gemm", 0, 3),
        gpu("gemm", 5, 9),
        gpu("relu", 20, 4),
        gpu("gemm", 30, 1, cat="gpu_memset"),
    ).kernels
    assert table.names == ("gemm", "relu", "gemm")
    assert table.categories == ("kernel", "kernel", "gpu_memset")
    assert table.calls.tolist() == [2, 1, 1]
    assert table.total.tolist() == [12_000, 4_000, 1_000]
    assert table.shortest.tolist() == [3_000, 4_000, 1_000]
    assert table.longest.tolist() == [9_000, 4_000, 1_000]
    assert table.first_row.tolist()[0] == 1


def test_steps_are_those_of_the_cpu_in_order() -> None:
    analysis = analysis_of(
        mark("ProfilerStep#4", 100, 50),
        cpu("ProfilerStep#3", 10, 90),
        gpu("ProfilerStep#3", 40, 90, cat="gpu_user_annotation"),
        mark("ProfilerStep", 0, 5),
    )
    assert [(step.index, step.duration) for step in analysis.steps] == [(3, 90_000), (4, 50_000)]
    assert [budget.step for budget in analysis.step_parts] == list(analysis.steps)
    assert "ProfilerStep#3" not in analysis.ops.names


def test_steps_that_several_threads_mark_are_those_of_one() -> None:
    analysis = analysis_of(
        mark("ProfilerStep#1", 0, 50, tid=1),
        mark("ProfilerStep#2", 50, 40, tid=1),
        mark("ProfilerStep#2", 45, 20, tid=2),
        mark("ProfilerStep#3", 95, 10, tid=2),
    )
    assert [(step.index, step.duration) for step in analysis.steps] == [
        (1, 50_000),
        (2, 40_000),
        (3, 10_000),
    ]


def test_a_trace_without_operators_has_an_empty_table() -> None:
    analysis = analysis_of(gpu("k", 0, 1))
    assert len(analysis.ops) == 0
    assert len(analysis.kernels) == 1


CALLS = st.lists(
    st.tuples(
        st.integers(0, 60), st.integers(0, 40), st.sampled_from("abc"), st.sampled_from([1, 2])
    ),
    min_size=1,
    max_size=25,
)


@pytest.mark.slow
@given(CALLS)
def test_self_times_sum_to_the_time_in_outermost_operators(
    calls: list[tuple[int, int, str, int]],
) -> None:
    trace = trace_of(*(cpu(name, start, length, tid=tid) for start, length, name, tid in calls))
    table = operators(trace)
    outermost = kinds.operators(trace) & (trace.parent == NONE)
    assert int(table.cpu_self.sum()) == int(trace.duration[outermost].sum())
    assert (table.cpu_self >= 0).all()
    assert (table.cpu_total >= 0).all()
    assert int(table.calls.sum()) == len(calls)


@pytest.mark.slow
@given(CALLS)
def test_total_time_of_a_name_is_its_time_on_the_stack(
    calls: list[tuple[int, int, str, int]],
) -> None:
    """Where calls nest properly: the union of a name's calls, thread by thread."""
    trace = trace_of(*(cpu(name, start, length, tid=tid) for start, length, name, tid in calls))
    nested = trace.parent != NONE
    if (trace.end[nested] > trace.end[trace.parent[nested]]).any():
        return
    table = operators(trace)
    for name, total in zip(table.names, table.cpu_total.tolist(), strict=True):
        moments = {
            (tid, moment)
            for start, length, called, tid in calls
            for moment in range(start, start + length)
            if called == name
        }
        assert total == 1000 * len(moments)


def test_rows_to_jump_to_are_the_longest() -> None:
    trace = trace_of(cpu("mm", 0, 1), cpu("mm", 10, 5), cpu("mm", 20, 5))
    assert np.array_equal(operators(trace).first_row, [1])


SPAN = st.tuples(
    st.sampled_from(["step", "load", "save"]), st.integers(1, 2), st.integers(0, 60),
    st.integers(0, 25),
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(SPAN, max_size=12))
def test_ranges_by_name_whatever_nests_in_what(spans):
    events = [mark(name, at / 1000, length / 1000, tid=tid) for name, tid, at, length in spans]
    trace = trace_of(named(1, "main"), cpu("aten::mm", 0, 1), *events)
    found = range_sums(trace)
    lengths, covered = defaultdict(list), defaultdict(set)
    for name, tid, at, length in spans:
        lengths[name].append(length)
        covered[name] |= {(tid, moment) for moment in range(at, at + length)}
    assert set(found.names) == set(lengths)
    for row, name in enumerate(found.names):
        assert found.calls[row] == len(lengths[name])
        assert found.total[row] == len(covered[name])
        assert found.mean[row] == sum(lengths[name]) // len(lengths[name])
        assert found.shortest[row] == min(lengths[name])
        assert found.longest[row] == max(lengths[name])
        assert trace.name_of(int(found.first_row[row])) == name
        assert trace.duration[found.first_row[row]] == max(lengths[name])
    assert sorted(found.total.tolist(), reverse=True) == found.total.tolist()


def test_ranges_within_one_of_their_name_add_no_time_and_threads_count_each():
    trace = trace_of(named(1, "main"), mark("block", 0, 10), mark("block", 2, 4))
    found = range_sums(trace)
    assert (found.calls[0], found.total[0], found.mean[0]) == (2, 10_000, 7_000)
    trace = trace_of(named(1, "main"), mark("block", 0, 10), mark("block", 2, 4, tid=2))
    assert range_sums(trace).total.tolist() == [14_000]


def test_calls_are_those_of_the_runtime_and_the_driver_alone():
    trace = trace_of(
        named(1, "main"),
        cpu("aten::mm", 0, 50),
        call("cudaLaunchKernel", 1, 3, correlation=1),
        call("cudaLaunchKernel", 5, 5, correlation=2),
        cpu("cuLaunchKernel", 20, 4, "cuda_driver"),
        gpu("gemm", 6, 20, 1),
        mark("step", 0, 60),
    )
    found = call_sums(trace)
    assert found.names == ("cudaLaunchKernel", "cuLaunchKernel")
    assert found.calls.tolist() == [2, 1]
    assert found.total.tolist() == [8000, 4000]
    assert found.mean.tolist() == [4000, 4000]
    assert (found.shortest.tolist(), found.longest.tolist()) == ([3000, 4000], [5000, 4000])
    assert range_sums(trace).names == ("step",)


def test_of_nothing_there_is_nothing():
    trace = trace_of(named(1, "main"), cpu("aten::mm", 0, 1))
    assert len(call_sums(trace)) == len(range_sums(trace)) == 0
