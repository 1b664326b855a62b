"""Own time by stack: all of a thread's sums to the united time of its outermost calls."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis import kinds
from perftui.analysis.intervals import union
from perftui.analysis.ops.call_paths import stack_times
from perftui.analysis.ops.call_tree import callers_of, innermost
from perftui.trace.model import NONE, PYTHON, Trace
from tests.traces.builder import TraceBuilder, us
from tests.traces.events import cpu, gpu, trace_of

CALLS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 40),
        st.integers(0, 30),
        st.sampled_from(["cpu_op", "python_function", "cuda_runtime", "user_annotation"]),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=25,
)


def outermost_time(trace: Trace) -> Counter[int]:
    """United time of the outermost calls, by track."""
    wanted = kinds.operators(trace) | trace.in_category(PYTHON)
    callers = callers_of(trace, innermost(trace, wanted))
    found: Counter[int] = Counter()
    for track in range(len(trace.tracks)):
        rows = wanted & (callers == NONE) & (trace.track == track)
        found[track] = union(trace.start[rows], trace.ends_of(rows)).total
    return +found


def by_track(trace: Trace) -> Counter[int]:
    found: Counter[int] = Counter()
    for one in stack_times(trace):
        found[one.track] += one.own
    return found


@pytest.mark.slow
@given(CALLS)
def test_a_thread_sums_to_its_outermost_calls(
    calls: list[tuple[str, int, int, str, int]],
) -> None:
    """However calls overlap: clocks are read one after the other, and old ones in whole us."""
    events = [cpu(name, ts, dur, cat, tid) for name, ts, dur, cat, tid in calls]
    trace = trace_of(*events)
    assert by_track(trace) == outermost_time(trace)


def test_operators_that_overlap_behind_a_mark_are_not_counted_twice() -> None:
    """An operator outlasts the mark around it by the microsecond that the next begins in."""
    mark = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    trace = trace_of(cpu(mark, 0, 10), cpu("a", 5, 6), cpu("b", 10, 5), cpu("c", 10, 2))
    assert by_track(trace) == outermost_time(trace) == Counter({0: 10_000})


def test_stacks_are_apart_by_caller_and_thread() -> None:
    built = TraceBuilder().frame("train.py(1): f").op("a").op("b", us(3)).pause(us(2)).close()
    built.op("b", us(4)).close().on(2).op("b", us(7))
    trace = built.trace()
    found = {(trace.tracks[one.track].thread, one.names): one.own for one in stack_times(trace)}
    assert found == {
        ("1", ("train.py(1): f", "a", "b")): us(3),
        ("1", ("train.py(1): f", "a")): us(2),
        ("1", ("train.py(1): f", "b")): us(4),
        ("2", ("b",)): us(7),
    }


def test_a_device_has_no_stacks() -> None:
    assert list(stack_times(trace_of(gpu("gemm", 0, 5)))) == []
