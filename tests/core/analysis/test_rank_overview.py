"""The steps and phases of each rank among the tracks of all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.analysis.merged_ranks import Evidence, RankAnalysis, RankClock, merge_ranks
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import find_phases
from perftui.analysis.timeline.measure import measure
from perftui.analysis.timeline.track import PHASES, STEPS
from perftui.trace.model import NONE
from tests.traces.events import analysis_of, cpu, gpu, mark, trace_of

ORIGIN = 10**18
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
        return analyse(replace(trace, wall_origin=ORIGIN + late * US))

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
    trace = replace(trace_of(cpu("aten::mm", 0, 1), *marks), wall_origin=ORIGIN)
    other = replace(trace, wall_origin=ORIGIN + late * US)
    found = put_together(analyse(trace), analyse(other))
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
                track.index.rows.tolist(), track.index.start.tolist(), track.index.end.tolist(),
                strict=True,
            )
        )  # fmt: skip
        assert drawn == expected
    order = np.lexsort((-found.trace.duration, found.trace.start, found.trace.track))
    assert np.array_equal(order, np.arange(len(found.trace)))
