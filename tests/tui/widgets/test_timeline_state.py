"""Where one is on the timeline: the view, the selection, marks, the order of tracks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui.trace.model import NONE
from perftui_tui.screens.timeline.navigation import (
    SHORTEST_VIEW,
    TimeMarks,
    Viewport,
    find_matches,
    same_name,
)
from perftui_tui.screens.timeline.state import TimelineState
from perftui_tui.screens.timeline.widget import Throttle

MS = 1_000_000


def is_whole(view):
    return (view.start, view.end) == (view.first, view.last)


def selected_name(state):
    return state.trace.name_of(state.selected.row)


def test_gaps_of_a_track_from_the_threshold_on(state):
    assert state.next_gap(1)
    assert (state.selected.start, state.selected.end) == (20 * MS, 50 * MS)
    assert not state.next_gap(1)
    for _ in range(5):
        state.change_threshold(-1)
    assert state.threshold == 1000
    assert not state.next_gap(1)
    state.change_threshold(1)
    assert not state.next_gap(-1)


def test_a_gap_too_short_to_see_is_closed_in_on(make_trace):
    trace = make_trace(("a", 1, 0, 5_000 * MS), ("b", 1, 5_000 * MS + 60_000, 5_000 * MS))
    state = TimelineState(analyse(trace), timeline_tracks(trace))
    assert state.next_gap(1)
    assert state.view.span < 100 * 60_000
    assert state.view.start < 5_000 * MS < state.view.end


def test_zoom_keeps_the_selection_in_view(state):
    state.next_event(1)
    for _ in range(10):
        state.zoom(0.5)
        assert state.view.start <= 12.5 * MS <= state.view.end
    for _ in range(30):
        state.zoom(2)
    assert is_whole(state.view)


def test_a_search_begins_at_the_longest(state):
    assert not state.longest_match()
    state.matches = find_matches(state.trace, "CUDA")
    assert state.longest_match()
    lasting = state.trace.duration[state.matches.rows]
    assert state.trace.duration[state.selected.row] == lasting.max()
    assert state.selected.start // MS == 60


def test_a_search_finds_kernels_by_their_short_names(make_trace):
    whole = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
    )
    trace = make_trace(("aten::add", 0, 0, 10), (whole, 1, 5, 20), ("gemm", 1, 30, 5))
    for needle in ("elementwise ADD", "native::vectorized"):
        assert [trace.name_of(row) for row in find_matches(trace, needle).rows] == [whole]


def test_search_goes_round(state):
    assert not state.next_match(1)
    state.matches = find_matches(state.trace, "CUDA")
    assert len(state.matches) == 3
    starts = []
    for _ in range(4):
        assert state.next_match(1)
        starts.append(state.selected.start // MS)
    assert starts == [2, 31, 60, 2]
    state.next_match(-1)
    assert state.selected.start // MS == 60
    state.matches = find_matches(state.trace, "")
    assert not state.next_match(1)


@pytest.mark.parametrize("step", [1, -1])
def test_the_next_of_a_name_among_very_many(make_trace, step, monkeypatch):
    monkeypatch.setattr("perftui_tui.screens.timeline.navigation._AT_ONCE", 3)
    wanted = {0, 1, 5, 11, 12, 19}
    trace = make_trace(*(("a" if at in wanted else "b", 1, 10 * at, 5) for at in range(20)))
    for row in sorted(wanted):
        further = [at for at in wanted if (at - row) * step > 0]
        expected = (min if step > 0 else max)(further, default=NONE)
        assert same_name(trace, row, step) == expected


def test_marks_around_a_selection(state):
    state.next_event(1)
    state.mark()
    assert state.marks == TimeMarks(5 * MS)
    assert state.marks.range is None
    state.mark()
    assert state.marks.range == (5 * MS, 20 * MS)
    state.next_event(1)
    state.mark()
    assert state.marks == TimeMarks(50 * MS)
    state.select_row(0)
    state.mark()
    assert state.marks.range == (0, 50 * MS)


def test_marks_without_a_selection(state):
    state.mark()
    assert state.marks == TimeMarks(45 * MS)
    state.mark_selection()
    assert state.marks.range == (0, 90 * MS)
    state.mark_range(500 * MS, -5)
    assert state.marks.range == (0, 90 * MS)


def test_clearing_takes_away_one_thing_at_a_time(state):
    state.next_event(1)
    state.mark()
    state.matches = find_matches(state.trace, "cuda")
    assert state.clear()
    assert state.marks == TimeMarks()
    assert state.clear()
    assert state.matches is None
    assert state.clear()
    assert state.selected is None
    assert not state.clear()


def labels(state):
    return [shown.track.label for shown in state.on_screen() if shown.leads]


def test_what_is_selected_comes_back_from_hiding(state):
    state.hide_track()
    assert state.select_row(5)
    assert labels(state) == ["GPU 0 stream 7", "main"]


def test_pinned_tracks_stay_while_others_scroll(state):
    state.move_track(1)
    state.pin_track()
    assert labels(state) == ["main", "GPU 0 stream 7"]
    state.pin_track()
    assert labels(state) == ["GPU 0 stream 7", "main"]
    state.pin_track()
    state.fold()
    state.fold()
    state.resized(2)
    state.scroll(5)
    assert labels(state)[0] == "main"
    assert not state.reorder(1)


def test_a_selection_in_a_folded_thread_unfolds_it(state):
    state.move_track(1)
    state.fold()
    state.fold()
    assert state.select_row(4)
    assert state.track.depth == 1
    assert state.track in [shown.track for shown in state.shown()]


def test_tracks_scroll_with_the_selected_one(state):
    state.resized(1)
    state.move_track(1)
    assert state.top == 1
    state.move_track(-5)
    assert state.top == 0
    state.scroll(99)
    assert state.top == len(state.shown()) - 1


TIMES = st.integers(0, 10**12)


@st.composite
def viewports(draw):
    first, length = draw(st.integers(-(10**12), 10**12)), draw(st.integers(1, 10**12))
    whole = Viewport.whole(first, first + length)
    start = draw(st.integers(first, first + length))
    return whole.showing(start, start + draw(st.integers(0, length)))


def sound(view):
    assert view.first <= view.start < view.end <= view.last
    assert view.span >= min(SHORTEST_VIEW, view.last - view.first)


@given(viewports(), st.floats(0.001, 1000), TIMES, st.integers(-(10**13), 10**13))
def test_every_move_stays_inside_the_trace(view, factor, anchor, amount):
    for moved in (
        view,
        view.zoomed(factor, anchor),
        view.panned(amount),
        view.fitted(anchor, anchor),
    ):
        sound(moved)


@given(viewports(), st.integers(-(10**13), 10**13))
def test_a_pan_keeps_the_zoom(view, amount):
    assert view.panned(amount).span == view.span


@given(viewports(), TIMES, st.integers(0, 10**9))
def test_what_is_revealed_is_in_view(view, start, length):
    start = min(max(start, view.first), view.last)
    end = min(start + length, view.last)
    moved = view.revealing(start, end)
    assert moved.start <= start
    assert end <= moved.end
    sound(moved)


def test_the_anchor_keeps_its_column():
    view = Viewport.whole(0, 1_000_000_000)
    anchor = view.time(30, 100)
    assert view.zoomed(0.01, anchor).column(anchor, 100) == 30


@given(viewports(), st.integers(1, 300))
def test_the_middle_of_a_column_is_in_it(view, columns):
    for column in (0, columns // 2, columns - 1):
        if view.span >= 2 * columns:
            assert view.column(view.time(column, columns), columns) == column


class Clock:
    def __init__(self):
        self.now = 0.0
        self.timers = []
        self.done = []

    def throttle(self):
        return Throttle(
            lambda: self.done.append(round(self.now, 3)),
            lambda wait, run: self.timers.append((self.now + wait, run)),
            interval=0.1,
            clock=lambda: self.now,
        )

    def pass_to(self, now):
        self.now = now
        due, self.timers = self.timers, []
        for time, run in due:
            self.timers.append((time, run)) if time > now else run()


def test_a_burst_costs_the_first_and_the_last():
    clock = Clock()
    throttle = clock.throttle()
    for _ in range(40):
        throttle.request()
    assert clock.done == [0.0]
    clock.pass_to(0.1)
    assert clock.done == [0.0, 0.1]
    clock.pass_to(1.0)
    assert clock.done == [0.0, 0.1]


def test_slow_requests_are_answered_at_once():
    clock = Clock()
    throttle = clock.throttle()
    for now in (0.0, 0.5, 1.0):
        clock.pass_to(now)
        throttle.request()
    assert clock.done == [0.0, 0.5, 1.0]
