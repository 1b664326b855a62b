from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.analysis.merged_ranks import (
    Evidence,
    RankAnalysis,
    RankClock,
    compare_clocks,
    merge_ranks,
)
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.timeline.measure import Launches
from perftui.analysis.timeline.tracks import device_label
from perftui.trace.model import DERIVED, NONE, Trace
from tests.traces.events import call, cpu, gpu, mark, trace_of

ORIGIN = 10**18
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def rank_of(
    kernels: list[tuple[str, int, int]], origin: int = ORIGIN, step: int = 1
) -> TraceAnalysis:
    """One step that holds kernels (name, start, end in µs), on a clock that began at ``origin``."""
    end = max((stop for _, _, stop in kernels), default=0) + 1000
    trace = trace_of(
        mark(f"ProfilerStep#{step}", 0, end),
        *(gpu(name, start, stop - start) for name, start, stop in kernels),
    )
    return analyse(replace(trace, wall_origin=origin, read_arguments=lambda _: {}))


ENTRIES = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(1, 50), st.integers(1, 50)),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=60)
@given(ENTRIES, st.integers(-2000, 2000))
def test_the_true_shift_lies_within_the_bounds(
    entries: list[tuple[int, int, int, int]], off: int
) -> None:
    """Two ranks enter at any time and leave when both are in; one clock is off by so many µs."""
    spans: tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]] = ([], [])
    for at, (one, two, first, second) in enumerate(entries):
        base = 1000 * at
        both = base + max(one, two)
        spans[0].append((REDUCE, base + one, both + first))
        spans[1].append((REDUCE, base + two, both + second))
    clock = compare_clocks(rank_of(spans[0]), 0, rank_of(spans[1], ORIGIN - 1000 * off), 1)
    assert clock.collectives == len(entries)
    assert clock.bounds is not None
    low, high = clock.bounds
    assert low <= 1000 * off <= high
    assert low <= clock.shift <= high
    assert (clock.evidence is Evidence.CONFIRMED) == (low <= 0 <= high)
    if clock.evidence is Evidence.CONFIRMED:
        assert clock.shift == 0


def test_without_a_collective_nothing_is_known() -> None:
    one = rank_of([("gemm", 0, 5), ("ncclKernel_SendRecv", 10, 20)])
    two = rank_of([("gemm", 0, 5), ("ncclKernel_SendRecv", 900, 920)])
    assert compare_clocks(one, 0, two, 1) == RankClock(0, Evidence.UNCHECKED)
    blind = replace(two, trace=replace(two.trace, wall_origin=None))
    assert compare_clocks(one, 0, blind, 1).evidence is Evidence.NO_CLOCK


def test_collectives_of_other_steps_or_groups_say_nothing() -> None:
    one = rank_of([(REDUCE, 0, 5)])
    later = rank_of([(REDUCE, 0, 5)], step=2)
    more = rank_of([(REDUCE, 0, 5), (REDUCE, 8, 9)])
    for other in (later, more):
        assert compare_clocks(one, 0, other, 1).evidence is Evidence.UNCHECKED
    apart = replace(
        one, trace=replace(one.trace, read_arguments=lambda _: {"Process Group Ranks": "[0, 2]"})
    )
    assert compare_clocks(apart, 0, one, 1).evidence is Evidence.UNCHECKED
    assert compare_clocks(apart, 0, one, 2).evidence is Evidence.CONFIRMED


def test_collectives_that_cannot_meet_are_said_to() -> None:
    one = rank_of([(REDUCE, 0, 10), (REDUCE, 100, 110)])
    two = rank_of([(REDUCE, 0, 10), (REDUCE, 500, 510)])
    clock = compare_clocks(one, 0, two, 1)
    assert (clock.evidence, clock.shift) == (Evidence.CONTRADICTED, 0)


def of(rank: int, row: int) -> Mapping[str, Any]:
    return {"of": (rank, row)}


def recorded_rows(trace: Trace) -> list[int]:
    """Those that files hold."""
    return np.flatnonzero(~trace.in_category(*DERIVED)).tolist()


def merged() -> TraceAnalysis:
    parts = []
    for rank in (0, 3):
        trace = trace_of(
            mark("ProfilerStep#1", 0, 100),
            cpu("aten::mm", 5, 50),
            call("cudaLaunchKernel", 10, 5, correlation=7),
            gpu("gemm", 20, 10, 7),
            gpu(f"only{rank}", 60, 10),
        )
        trace = replace(trace, wall_origin=ORIGIN + 1000 * rank, read_arguments=partial(of, rank))
        evidence = Evidence.REFERENCE if not rank else Evidence.CONFIRMED
        parts.append(RankAnalysis(rank, analyse(trace), RankClock(0, evidence)))
    return merge_ranks(parts)


def test_ranks_side_by_side() -> None:
    both = merged()
    trace = both.trace
    rows = recorded_rows(trace)
    assert len(rows) == 10
    labels = [track.label for track in both.timeline_tracks if track.depth == 0]
    assert labels == [
        "rank 0 steps", "rank 0 GPU 0 stream 7", "rank 0 main thread",
        "rank 3 steps", "rank 3 GPU 0 stream 7", "rank 3 main thread",
    ]  # fmt: skip
    assert {device_label(trace, each.device) for each in both.gaps} == {
        "rank 0 GPU 0",
        "rank 3 GPU 0",
    }
    for track in both.timeline_tracks:
        shown = track.index.rows
        assert np.array_equal(trace.start[shown], track.index.start)
        assert set(trace.track[shown].tolist()) == {track.track}
    starts = [int(trace.start[row]) for row in rows if trace.name_of(row) == "gemm"]
    assert starts == [20_000, 23_000]
    order = np.lexsort((trace.start, trace.track))
    assert np.array_equal(order, np.arange(len(trace)))


def test_ranks_keep_their_launches_callers_and_arguments_apart() -> None:
    both = merged()
    trace, launches = both.trace, Launches(both.trace)
    for at, row in enumerate(recorded_rows(trace)):
        rank = trace.tracks[int(trace.track[row])].rank
        if trace.name_of(row) == "gemm":
            call = launches.launching(row)
            assert trace.tracks[int(trace.track[call])].rank == rank
            assert launches.launched(call).tolist() == [row]
        parent = int(trace.parent[row])
        if parent != NONE:
            assert trace.tracks[int(trace.track[parent])].rank == rank
            assert parent < row
        assert trace.read_arguments(row) == {"of": (rank, at % 5)}
    for gap in both.gaps:
        if gap.previous_row != NONE:
            assert trace.ends_of(np.array([gap.previous_row])).tolist() == [gap.start]
        assert gap.next_row == NONE or int(trace.start[gap.next_row]) == gap.end


def test_without_clocks_all_begin_together() -> None:
    one = rank_of([("gemm", 10, 20)])
    blind = replace(one, trace=replace(one.trace, wall_origin=None))
    both = merge_ranks(
        [
            RankAnalysis(0, one, RankClock(0, Evidence.REFERENCE)),
            RankAnalysis(1, blind, compare_clocks(one, 0, blind, 1)),
        ]
    )
    starts = [int(both.trace.start[r]) for r in range(6) if both.trace.name_of(r) == "gemm"]
    assert starts == [10_000, 10_000]
    assert both.trace.wall_origin is None
