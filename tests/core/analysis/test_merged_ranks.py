"""Traces of several ranks on one clock, and what comes before each."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.analysis.merged_ranks import Evidence, RankAnalysis, RankClock, merge_ranks
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import find_phases
from perftui.analysis.timeline.measure import Launches, measure
from perftui.analysis.timeline.track import PHASES, STEPS
from perftui.analysis.timeline.tracks import device_label
from perftui.facts.ranks.matched_collectives import compare_clocks
from perftui.trace.model import DERIVED, NONE, Trace
from tests.traces.events import analysis_of, call, cpu, gpu, mark, trace_of

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
    clock = compare_clocks(rank_of(spans[0]), rank_of(spans[1], ORIGIN - 1000 * off))
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
    assert compare_clocks(one, two) == RankClock(0, Evidence.UNCHECKED)
    blind = replace(two, trace=replace(two.trace, wall_origin=None))
    assert compare_clocks(one, blind).evidence is Evidence.NO_CLOCK


def test_collectives_of_other_steps_or_groups_say_nothing() -> None:
    one = rank_of([(REDUCE, 0, 5)])
    later = rank_of([(REDUCE, 0, 5)], step=2)
    more = rank_of([(REDUCE, 0, 5), (REDUCE, 8, 9)])
    for other in (later, more):
        assert compare_clocks(one, other).evidence is Evidence.UNCHECKED
    first, second = (
        replace(
            one,
            trace=replace(
                one.trace, read_arguments=lambda _, name=name: {"Process Group Name": name}
            ),
        )
        for name in ("dp", "tp")
    )
    assert compare_clocks(first, second).evidence is Evidence.UNCHECKED
    assert compare_clocks(first, first).evidence is Evidence.CONFIRMED


def test_collectives_that_cannot_meet_are_said_to() -> None:
    one = rank_of([(REDUCE, 0, 10), (REDUCE, 100, 110)])
    clock = compare_clocks(one, rank_of([(REDUCE, 0, 10), (REDUCE, 500, 510)]))
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


def test_ranks_side_by_side_keep_their_launches_callers_and_arguments_apart() -> None:
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
            RankAnalysis(1, blind, compare_clocks(one, blind)),
        ]
    )
    starts = [int(both.trace.start[r]) for r in range(6) if both.trace.name_of(r) == "gemm"]
    assert starts == [10_000, 10_000]
    assert both.trace.wall_origin is None


FIRST = 10**18
US = 1_000


def put_together(*analyses: TraceAnalysis, shift: int = 0) -> TraceAnalysis:
    """Ranks 0, 1, ...; all but the first with a clock that ``shift`` (ns) has to be added to."""
    clocks = [RankClock(0, Evidence.REFERENCE)]
    clocks += [RankClock(shift, Evidence.SHIFTED)] * (len(analyses) - 1)
    parts = zip(analyses, clocks, strict=True)
    return merge_ranks([RankAnalysis(rank, a, clock) for rank, (a, clock) in enumerate(parts)])


def spans(analysis: TraceAnalysis, rank: int, kind: str) -> list[tuple[str, int, int]]:
    """Name, start and end in µs of what lies on that track of a rank."""
    trace = analysis.trace
    return [
        (trace.name_of(row), start // US, end // US)
        for track in analysis.timeline_tracks
        if track.kind == kind and trace.tracks[track.track].rank == rank
        for row, start, end in zip(
            track.index.rows.tolist(), track.index.start.tolist(), track.index.end.tolist(),
            strict=True,
        )
    ]  # fmt: skip


@pytest.fixture
def both() -> TraceAnalysis:
    """Two ranks, the second 250 µs later and slower; its clock is 50 µs behind."""

    def rank(late: int, slower: int) -> TraceAnalysis:
        trace = trace_of(
            mark("ProfilerStep#4", 0, 100 * slower),
            mark("perftui::input_wait", 0, 10),
            mark("perftui::forward", 10, 20 * slower),
            cpu("aten::mm", 12, 5),
            mark("perftui::backward", 70 * slower, 30 * slower),
            mark("ProfilerStep#5", 100 * slower, 40),
            gpu("gemm", 20, 10),
        )
        return analyse(replace(trace, wall_origin=FIRST + late * US))

    return put_together(rank(0, 1), rank(200, 2), shift=50 * US)


def test_each_rank_has_its_steps_and_phases_on_one_clock(both: TraceAnalysis) -> None:
    assert spans(both, 0, STEPS) == [("step 4", 0, 100), ("step 5", 100, 140)]
    assert spans(both, 0, PHASES) == [
        ("input_wait", 0, 10), ("forward", 10, 30), ("backward", 70, 100),
    ]  # fmt: skip
    assert spans(both, 1, STEPS) == [("step 4", 250, 450), ("step 5", 450, 490)]
    assert spans(both, 1, PHASES) == [
        ("input_wait", 250, 260), ("forward", 260, 300), ("backward", 390, 450),
    ]  # fmt: skip


def test_they_come_before_what_the_rank_recorded(both: TraceAnalysis) -> None:
    leading = [track for track in both.timeline_tracks if not track.depth or track.is_overview]
    order = [(both.trace.tracks[track.track].rank, track.kind) for track in leading]
    assert order == [
        (0, STEPS), (0, PHASES), (0, "device"), (0, "thread"),
        (1, STEPS), (1, PHASES), (1, "device"), (1, "thread"),
    ]  # fmt: skip


def test_the_steps_of_each_rank_are_distinguished(both: TraceAnalysis) -> None:
    assert both.ranks == (0, 1)
    for rank, durations in ((0, [100, 40]), (1, [200, 40])):
        steps = both.steps_of(rank)
        assert [(step.index, step.duration // US) for step in steps] == [
            (4, durations[0]),
            (5, durations[1]),
        ]
        for step in steps:
            assert int(both.trace.start[step.row]) == step.start
            assert both.trace.name_of(step.row) == f"step {step.index}"
    assert len(both.steps) == 4
    assert both.steps_of(NONE) == both.steps


def test_what_they_say_again_is_counted_once(both: TraceAnalysis) -> None:
    found = measure(both.trace, 0, 500 * US)
    calls = {each.name: each.calls for each in found.names}
    assert calls == {
        "ProfilerStep#4": 2, "ProfilerStep#5": 2, "perftui::input_wait": 2, "perftui::forward": 2,
        "perftui::backward": 2, "aten::mm": 2, "gemm": 2,
    }  # fmt: skip
    assert [(each.time, each.events) for each in found.threads] == [(5 * US, 1)] * 2


def test_one_rank_is_measured_alone(both: TraceAnalysis) -> None:
    found = measure(both.trace, 250 * US, 300 * US, 1)
    assert {each.name: each.total // US for each in found.names} == {
        "ProfilerStep#4": 50, "perftui::forward": 40, "gemm": 10, "perftui::input_wait": 10,
        "aten::mm": 5,
    }  # fmt: skip
    assert [each.time // US for each in found.devices] == [10]
    assert [each.calls for each in measure(both.trace, 250 * US, 300 * US, 0).names] == []
    assert len(measure(both.trace, 250 * US, 300 * US).devices) == 2


def test_nothing_of_them_is_in_the_file(both: TraceAnalysis) -> None:
    for step in both.steps:
        assert both.trace.read_arguments(step.row) == {}
        assert int(both.trace.parent[step.row]) == NONE


def test_a_rank_that_marks_nothing_has_no_such_lane() -> None:
    marked = analysis_of(mark("ProfilerStep#1", 0, 50))
    bare = analysis_of(gpu("gemm", 0, 10))
    for analyses in ((marked, bare), (bare, marked)):
        found = put_together(*analyses)
        owners = [
            found.trace.tracks[track.track].rank
            for track in found.timeline_tracks
            if track.is_overview
        ]
        assert owners == [analyses.index(marked)]
        assert found.steps_of(analyses.index(bare)) == ()


def test_steps_that_overlap_get_tracks_that_do_not() -> None:
    """Two threads mark steps of different numbers."""
    trace = trace_of(mark("ProfilerStep#1", 0, 100), mark("ProfilerStep#2", 30, 40, tid=2))
    found = put_together(analyse(trace), analyse(trace))
    tracks = [track for track in found.timeline_tracks if track.kind == STEPS]
    assert [(track.depth, len(track.index)) for track in tracks] == [(0, 1), (1, 1)] * 2


STRETCHES = st.lists(
    st.tuples(
        st.sampled_from(["forward", "backward", "optimizer", "input_wait"]),
        st.integers(0, 400),
        st.integers(0, 60),
    ),
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=60)
@given(STRETCHES, st.integers(0, 1000))
def test_phases_of_a_rank_are_those_that_it_has_alone(
    stretches: list[tuple[str, int, int]], late: int
) -> None:
    """By sum and by place, whatever they overlap."""
    marks = [mark(f"perftui::{n}", start, long) for n, start, long in stretches]
    trace = replace(trace_of(cpu("aten::mm", 0, 1), *marks), wall_origin=FIRST)
    found = put_together(analyse(trace), analyse(replace(trace, wall_origin=FIRST + late * US)))
    expected = sorted(
        (start, end, name)
        for name, each in find_phases(trace).items()
        for start, end in zip(each.start.tolist(), each.end.tolist(), strict=True)
    )
    for rank, shift in ((0, 0), (1, late * US)):
        drawn = sorted(
            (start - shift, end - shift, found.trace.name_of(row))
            for track in found.timeline_tracks
            if track.kind == PHASES and found.trace.tracks[track.track].rank == rank
            for row, start, end in zip(
                track.index.rows.tolist(),
                track.index.start.tolist(),
                track.index.end.tolist(),
                strict=True,
            )
        )
        assert drawn == expected
    order = np.lexsort((-found.trace.duration, found.trace.start, found.trace.track))
    assert np.array_equal(order, np.arange(len(found.trace)))
