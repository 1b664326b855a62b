from dataclasses import replace

import numpy as np
import pytest

from perftui.analysis.analyse import analyse
from perftui.analysis.lanes import MARKS, build_lanes
from perftui.trace.model import NONE
from perftui_tui.widgets.event_detail import (
    argument_line,
    event_lines,
    gap_lines,
    panel_lines,
    self_time,
)
from perftui_tui.widgets.navigation import event, launched_row, launching_row, named_rows
from perftui_tui.widgets.timeline_state import TimelineState
from tests.core.diagnosis.looks import ORIGIN, at_wall, run_with

MS = 1_000_000


def is_whole(view):
    return (view.start, view.end) == (view.first, view.last)


@pytest.fixture
def trace(make_trace):
    launch = {"category": "cuda_runtime", "depth": 1, "parent": 0}
    copy = {"category": "gpu_memcpy", "bytes": 4096}
    return make_trace(
        ("aten::mm", 0, 0, 10 * MS),
        ("cudaLaunchKernel", 0, 2 * MS, MS, launch | {"correlation": 5}),
        ("aten::item", 0, 30 * MS, 60 * MS),
        ("cudaLaunchKernel", 0, 31 * MS, MS, launch | {"correlation": 6, "parent": 2}),
        ("cudaStreamSynchronize", 0, 60 * MS, 20 * MS, launch | {"parent": 2}),
        ("gemm", 1, 5 * MS, 15 * MS, {"correlation": 5}),
        ("Memcpy DtoH", 1, 50 * MS, 10 * MS, copy | {"correlation": 6}),
        ("relu", 1, 60 * MS + 100, 5 * MS),
    )  # fmt: skip


@pytest.fixture
def state(trace):
    state = TimelineState(analyse(trace), build_lanes(trace))
    state.resized(10)
    return state


def selected_name(state):
    return state.trace.name_of(state.selected.row)


def test_the_first_lane_is_the_device(state):
    assert state.trace.tracks[state.lane.track].is_device
    assert is_whole(state.view)


def test_events_of_a_lane_one_after_another(state):
    names = []
    while state.next_event(1):
        names.append(selected_name(state))
    assert names == ["gemm", "Memcpy DtoH", "relu"]
    assert not state.next_event(1)
    assert state.next_event(-1)
    assert selected_name(state) == "Memcpy DtoH"


def test_gaps_of_a_lane_from_the_threshold_on(state):
    assert state.next_gap(1)
    assert (state.selected.start, state.selected.end) == (20 * MS, 50 * MS)
    assert not state.next_gap(1)
    for _ in range(5):
        state.change_threshold(-1)
    assert state.threshold == 1000
    assert not state.next_gap(1)
    state.change_threshold(1)
    assert not state.next_gap(-1)


def test_the_largest_gap_comes_into_sight(state):
    assert state.largest_gap()
    assert state.selected.is_gap
    assert (state.selected.start, state.selected.end) == (20 * MS, 50 * MS)
    assert "GPU 0 idle 30.0 ms" in gap_lines(state.analysis, state.gaps, state.selected)[0]


def test_a_gap_in_a_run_names_the_line_of_the_main_thread(state):
    state.largest_gap()
    analysis = replace(state.analysis, trace=replace(state.analysis.trace, wall_origin=ORIGIN))
    run = run_with(at_wall((25, 20, "/home/a/train.py", 8), (45, 100, "/home/a/train.py", 9)))
    said = gap_lines(analysis, state.gaps, state.selected, run)
    assert "main thread at /home/a/train.py:8 for 67 % of it (2 looks)" in said
    elsewhere = run_with(at_wall((55, 20, "/home/a/train.py", 8)))
    unnamed = gap_lines(analysis, state.gaps, state.selected, elsewhere)
    assert unnamed == gap_lines(state.analysis, state.gaps, state.selected)


def test_an_idle_stream_is_said_to_be_no_gap_only_where_that_is_known(state, monkeypatch):
    state.largest_gap()
    unlisted = replace(state.selected, start=51 * MS, end=52 * MS)
    assert "other streams" in gap_lines(state.analysis, state.gaps, unlisted)[1]
    monkeypatch.setattr("perftui_tui.widgets.event_detail.MOST", len(state.analysis.gaps))
    shorter = replace(unlisted, end=unlisted.start + 50)
    assert "cause not known" in gap_lines(state.analysis, state.gaps, shorter)[1]
    assert "other streams" in gap_lines(state.analysis, state.gaps, unlisted)[1]


def test_idle_time_at_the_ends_is_not_put_down_to_other_streams(make_trace):
    trace = make_trace(
        ("aten::mm", 0, 0, 40 * MS), ("gemm", 1, 10 * MS, 5 * MS), ("relu", 1, 20 * MS, 5 * MS)
    )
    state = TimelineState(analyse(trace), build_lanes(trace))
    for clicked, words in ((1, "before the first activity"), (39, "after the last activity")):
        state.select_at(state.lane, clicked * MS, (clicked + 1) * MS)
        said = gap_lines(state.analysis, state.gaps, state.selected)
        assert f"{words} of GPU 0" in said[1]


def test_blanks_between_ranges_on_a_stream_are_not_called_idle(make_trace):
    mark = {"category": "gpu_user_annotation"}
    trace = make_trace(
        ("forward", 1, 0, 10 * MS, mark),
        ("gemm", 1, 0, 50 * MS),
        ("backward", 1, 20 * MS, MS, mark),
    )
    state = TimelineState(analyse(trace), build_lanes(trace))
    ranges = next(lane for lane in state.lanes if lane.kind == MARKS)
    state.select_at(ranges, 15 * MS, 16 * MS)
    assert gap_lines(state.analysis, state.gaps, state.selected) == [
        "nothing recorded for 10.0 ms",
        "GPU 0 stream 7  from 10 ms to 20 ms",
    ]


def test_a_gap_too_short_to_see_is_closed_in_on(make_trace):
    trace = make_trace(("a", 1, 0, 5_000 * MS), ("b", 1, 5_000 * MS + 60_000, 5_000 * MS))
    state = TimelineState(analyse(trace), build_lanes(trace))
    assert state.next_gap(1)
    assert state.view.span < 100 * 60_000
    assert state.view.start < 5_000 * MS < state.view.end


def test_fit_the_selection_and_then_everything(state):
    state.next_event(1)
    state.fit()
    assert (state.view.start, state.view.end) == (int(3.5 * MS), int(21.5 * MS))
    state.fit()
    assert is_whole(state.view)


def test_zoom_keeps_the_selection_in_view(state):
    state.next_event(1)
    for _ in range(10):
        state.zoom(0.5)
        assert state.view.start <= 12.5 * MS <= state.view.end
    for _ in range(30):
        state.zoom(2)
    assert is_whole(state.view)


def test_pan_and_edges(state):
    state.zoom(0.1)
    start = state.view.start
    state.pan(1)
    assert state.view.start > start
    state.to_edge(-1)
    assert state.view.start == state.view.first
    state.to_edge(1)
    assert state.view.end == state.view.last


def test_from_a_kernel_to_its_launch_and_back(state):
    state.next_event(1)
    assert state.follow_launch(-1)
    assert selected_name(state) == "cudaLaunchKernel"
    assert state.follow_launch(1)
    assert selected_name(state) == "gemm"
    state.select_row(7)
    assert not state.follow_launch(-1)


def test_an_operator_leads_to_its_first_kernel(trace):
    assert launched_row(trace, 0) == 5
    assert launched_row(trace, 2) == 6
    assert launched_row(trace, 4) == NONE
    assert launching_row(trace, 6) == 3
    assert launching_row(trace, 7) == NONE


def test_search_goes_round(state):
    assert state.search("CUDA") == 3
    starts = []
    for _ in range(4):
        assert state.next_match(1)
        starts.append(state.selected.start // MS)
    assert starts == [2, 31, 60, 2]
    state.next_match(-1)
    assert state.selected.start // MS == 60
    assert state.search("") == 0
    assert not state.next_match(1)


def test_named_rows_are_in_time_order(trace):
    starts = trace.start[named_rows(trace, "E")]
    assert len(starts) == 8
    assert np.all(starts[1:] >= starts[:-1])


def test_folding_hides_deeper_lanes_and_keeps_a_lane_selected(state):
    state.move_lane(2)
    assert state.lane.depth == 1
    state.fold()
    state.fold()
    assert state.lane.depth == 0
    assert len(state.shown()) == 2
    state.fold()
    assert len(state.shown()) == 3


def test_a_selection_in_a_folded_thread_unfolds_it(state):
    state.move_lane(1)
    state.fold()
    state.fold()
    assert state.select_row(4)
    assert state.lane.depth == 1
    assert state.lane in [shown.lane for shown in state.shown()]


def test_lanes_scroll_with_the_selected_one(state):
    state.resized(1)
    state.move_lane(1)
    assert state.top == 1
    state.move_lane(-5)
    assert state.top == 0
    state.scroll(99)
    assert state.top == len(state.shown()) - 1


def test_jump_to_an_event_or_to_idle_time(state):
    state.jump(31 * MS, 32 * MS, 3)
    assert selected_name(state) == "cudaLaunchKernel"
    state.jump(20 * MS, 50 * MS, None)
    assert state.selected.is_gap
    assert state.trace.tracks[state.selected.lane.track].is_device
    assert state.view.start < 20 * MS < 50 * MS < state.view.end


def test_a_click_selects_an_event_or_the_gap(state):
    state.select_at(state.lane, 6 * MS, 7 * MS)
    assert selected_name(state) == "gemm"
    state.select_at(state.lane, 30 * MS, 31 * MS)
    assert (state.selected.start, state.selected.end) == (20 * MS, 50 * MS)
    state.select_at(state.lane, 0, MS)
    assert (state.selected.start, state.selected.end) == (0, 5 * MS)


def test_the_detail_of_an_event(trace):
    lanes = build_lanes(trace)
    name, facts, callers = event_lines(trace, event(trace, lanes[0], 6))
    assert name == "Memcpy DtoH"
    assert facts == (
        "gpu_memcpy (copy)  GPU 0 stream 7  start 50 ms  duration 10.0 ms"
        "  gap before 30.0 ms  gap after 100 ns  4.00 KiB  correlation 6"
    )
    assert callers == "in cudaLaunchKernel < aten::item"


def test_self_time_leaves_out_calls(trace):
    assert self_time(trace, 2) == (60 - 1 - 20) * MS
    lane = build_lanes(trace)[1]
    facts = event_lines(trace, event(trace, lane, 0))[1]
    assert "self 9.00 ms" in facts
    assert "gap before" not in facts


def test_arguments_are_one_harmless_line():
    line = argument_line({"Input Dims": [[8, 3]], "evil": "a\x1b[2J\nb", "long": "x" * 999})
    assert "Input Dims=[[8, 3]]" in line
    assert line.isprintable()
    assert len(line) < 300


def test_a_panel_never_overflows_and_shows_figures_whole():
    lines = [
        "name " * 30,
        "start 1 ms  duration 24.2 ms  gap before 3.00 µs",
        "in " + "f < " * 60,
        "args",
    ]
    for height in (3, 4, 8):
        rows = panel_lines(lines, 30, height)
        assert len(rows) <= height
        assert all(len(row) <= 30 for row in rows)
        assert rows[0].startswith("name name")
    assert panel_lines(lines, 30, 8)[1:3] == ["start 1 ms  duration 24.2 ms", "gap before 3.00 µs"]
    assert panel_lines(lines, 30, 8)[-1] == "args"
