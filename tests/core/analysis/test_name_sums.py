"""Ranges and calls by name, against looking at every nanosecond."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.ops.calls import call_sums, range_sums
from tests.traces.events import call, cpu, gpu, mark, named, trace_of

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


def test_a_range_within_one_of_its_name_adds_no_time():
    trace = trace_of(named(1, "main"), mark("block", 0, 10), mark("block", 2, 4))
    found = range_sums(trace)
    assert (found.calls[0], found.total[0], found.mean[0]) == (2, 10_000, 7_000)


def test_threads_count_each_for_itself():
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
