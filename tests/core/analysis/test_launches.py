from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis import kinds
from perftui.analysis.timeline.measure import Launches
from perftui.trace.model import NONE, Trace
from tests.traces.events import Event, call, cpu, gpu, trace_of


def row_of(trace: Trace, name: str) -> int:
    return [trace.name_of(row) for row in range(len(trace))].index(name)


def names(trace: Trace, rows: Any) -> list[str]:
    return [trace.name_of(int(row)) for row in rows]


def test_calls_lead_to_kernels_and_back() -> None:
    trace = trace_of(
        cpu("linear", 0, 50),
        call("cudaMalloc", 5, 2, correlation=1),
        call("cudaLaunchKernel", 10, 5, correlation=2),
        call("cudaGraphLaunch", 60, 5, correlation=3),
        gpu("gemm", 100, 5, 2),
        gpu("second", 130, 5, 3),
        gpu("first", 120, 5, 3, stream=20),
        gpu("alone", 140, 5),
        gpu("lost", 150, 5, 9),
    )
    launches = Launches(trace)
    for name in ("linear", "cudaLaunchKernel"):
        assert names(trace, launches.launched(row_of(trace, name))) == ["gemm"]
    assert names(trace, launches.launched(row_of(trace, "cudaGraphLaunch"))) == ["first", "second"]
    for nothing in ("cudaMalloc", "gemm"):
        assert not len(launches.launched(row_of(trace, nothing)))
    assert launches.launching(row_of(trace, "gemm")) == row_of(trace, "cudaLaunchKernel")
    assert launches.launching(row_of(trace, "first")) == row_of(trace, "cudaGraphLaunch")
    for nothing in ("alone", "lost", "linear", "cudaLaunchKernel"):
        assert launches.launching(row_of(trace, nothing)) == NONE


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["op", "call", "kernel"]),
            st.integers(0, 40),
            st.integers(0, 30),
            st.integers(-1, 4),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_the_same_as_asking_every_row(events: list[tuple[str, int, int, int]]) -> None:
    make: dict[str, Callable[[int, int, int], Event]] = {
        "op": lambda start, length, _: cpu("op", start, length),
        "call": lambda start, length, number: call("call", start, length, correlation=number),
        "kernel": lambda start, length, number: gpu("kernel", start, length, number),
    }
    trace = trace_of(*(make[kind](*about) for kind, *about in events))
    launches, work, calls = Launches(trace), kinds.device_activity(trace), kinds.launches(trace)
    ids, everything = trace.correlation.tolist(), range(len(trace))
    for row in everything:
        found = launches.launching(row)
        same = [one for one in everything if calls[one] and work[row] and ids[one] == ids[row]]
        assert found == (same[0] if same and ids[row] != NONE else NONE)
        end = int(trace.start[row] + trace.duration[row])
        inside = [
            one
            for one in everything
            if one >= row and trace.track[one] == trace.track[row] and trace.start[one] <= end
        ]
        joined = [
            one
            for one in inside
            if ids[one] != NONE and any(work[k] and ids[k] == ids[one] for k in everything)
        ]
        expected = []
        if joined and not work[row]:
            expected = [k for k in everything if work[k] and ids[k] == ids[joined[0]]]
        assert sorted(launches.launched(row).tolist()) == expected
