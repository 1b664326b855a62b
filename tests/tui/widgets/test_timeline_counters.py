"""Counters and helper threads as tracks of the timeline."""

import numpy as np
import pytest

from perftui.analysis.analyse import analyse
from perftui.analysis.timeline.track import COUNTER, HELPERS, Counter, intervals
from perftui.analysis.timeline.tracks import helper_threads, timeline_tracks
from perftui_tui.look.rows import plain
from perftui_tui.screens.timeline.counters import (
    counter_cells,
    counter_lines,
    counter_table,
    counter_tracks,
    counters_at,
)
from perftui_tui.screens.timeline.navigation import Viewport
from perftui_tui.screens.timeline.rows import Scene, track_rows
from perftui_tui.screens.timeline.state import TimelineState
from perftui_tui.screens.timeline.track_cells import Glyphs
from tests.traces.events import cpu, gpu, named, trace_of
from tests.tui.traces import traced

MS = 1_000_000


def counter(at, value, name="GPU use", unit="%", top=100.0, every=100 * MS):
    at = np.array(at, dtype=np.int64)
    start, end = intervals(at, every or 1, is_mean=False)
    short = name.rpartition(" ")[2][:3]
    value = np.array(value, dtype=np.float64)
    return Counter(name, short, unit, "made up", top, every, False, start, end, at, value)


USE = counter([0, 100 * MS, 200 * MS], [25, 0, 100])
MEMORY = counter([0], [2**31], "GPU memory", "B", 2.0**33)


@pytest.fixture
def state():
    trace = traced(("aten::mm", 0, 0, 400 * MS), ("gemm", 1, 0, 400 * MS))
    tracks = timeline_tracks(trace)
    state = TimelineState(analyse(trace), tracks, counters=counter_tracks([USE, MEMORY]))
    state.resized(10)
    return state


def drawn(counter, start, end, columns, *, ascii_only=False):
    view = Viewport(start, end, 0, 400 * MS)
    return counter_cells(counter, view, columns, Glyphs(ascii_only))


def text(cells):
    return "".join(glyph for glyph, _ in cells)


def kinds(state):
    return [shown.track.kind for shown in state.shown()]


def rows_of(state, width=80):
    return [plain(row) for row in track_rows(Scene(state, Glyphs()), state, width)]


def select(state, kind):
    state.track = next(shown.track for shown in state.shown() if shown.track.kind == kind)


def test_a_sample_is_as_high_as_its_value_and_time_without_one_is_blank():
    cells = drawn(USE, 0, 400 * MS, 40)
    assert text(cells) == "25 %▂▂▂▂▂▂0 %▁▁▁▁▁▁▁100 %█████          "
    assert drawn(USE, 0, 400 * MS, 8)[-1] == (" ", "")
    assert text(drawn(USE, 0, 400 * MS, 8)) == "▂▂▁▁██  "
    assert text(drawn(USE, 0, 400 * MS, 8, ascii_only=True)) == "..  ##  ".replace("  #", "..#")
    # What is held from outside the view is dim and says so.
    cells = drawn(USE, 10 * MS, 60 * MS, 40)
    assert text(cells) == "25 %, sampled every 100 ms▂▂▂▂▂▂▂▂▂▂▂▂▂▂"
    assert {style for _, style in cells} == {"muted"}
    assert {style for _, style in drawn(USE, 0, 400 * MS, 8)} == {"counter", ""}
    assert text(drawn(USE, 300 * MS, 400 * MS, 20)) == "  no sample         "
    assert text(drawn(USE, 300 * MS, 400 * MS, 8)) == " " * 8


def test_counters_stand_between_the_devices_and_the_threads(state):
    assert kinds(state) == ["device", COUNTER, COUNTER, "thread"]
    shown = rows_of(state)
    assert shown[1].startswith(" use 0-100 %")
    assert shown[2].startswith(" mem 0-8 GiB")
    assert rows_of(state, 120)[1].startswith(" GPU use 0-100 %")
    # Keys begin where there is something to find.
    assert state.track.kind == "device"


def test_counters_fold_where_there_is_no_room_and_by_key(state):
    state.resized(3)
    assert kinds(state) == ["device", COUNTER, "thread"]
    assert rows_of(state)[1].startswith(" use 0-100 % +1")
    select(state, COUNTER)
    state.fold()
    assert kinds(state).count(COUNTER) == 2
    state.resized(10)
    state.fold()
    assert kinds(state).count(COUNTER) == 1
    state.fold()
    assert kinds(state).count(COUNTER) == 2


def test_counters_are_hidden_and_moved_together(state):
    select(state, COUNTER)
    assert state.reorder(1)
    assert kinds(state) == ["device", "thread", COUNTER, COUNTER]
    state.hide_track()
    assert kinds(state) == ["device", "thread"]
    assert state.hidden_count == 1


def test_keys_go_from_sample_to_sample(state):
    select(state, COUNTER)
    whole = state.view
    found = []
    while state.next_event(1):
        found.append(state.track.selected_sample(state.selected).value)
    assert found == [25, 0, 100]
    assert state.next_event(-1)
    assert state.view == whole
    state.view = state.view.showing(110 * MS, 120 * MS)
    inside = state.view
    state.selected = None
    assert state.next_event(1)
    assert state.track.selected_sample(state.selected).value == 0
    assert state.view == inside


def test_a_click_selects_the_sample_or_the_time_without_one(state):
    use = next(shown.track for shown in state.shown() if shown.track.kind == COUNTER)
    state.select_at(use, 150 * MS, 151 * MS)
    lines = [line.text for line in counter_lines(use, state.selected)]
    assert lines[0] == "GPU use: 0 %"
    assert "sampled every 100 ms, drawn until the next  at 100 ms" in lines
    assert "3 samples in the trace  min 0 %  max 100 %  a full cell is 100 %" in lines
    state.select_at(use, 350 * MS, 351 * MS)
    assert counter_lines(use, state.selected)[0].text == "GPU use: no sample for 100 ms"
    assert not state.follow_launch(1)
    assert not state.same_name(1)
    assert state.steps == state.analysis.steps


def test_values_meanwhile_and_the_table_of_the_whole_time(state):
    memory = state.counters[1]
    state.select_at(memory, 0, 1)
    first = counter_lines(memory, state.selected)[0].text
    assert first == "GPU memory: 2.00 GiB (2,147,483,648 B)"
    (line,) = counters_at(state.counters, 0, 20 * MS)
    assert line.text == "meanwhile  GPU use 25 %  GPU memory 2.00 GiB"
    assert counters_at(state.counters, 350 * MS, 351 * MS) == []
    lines = [line.text.split() for line in counter_table(state.counters, state.view)]
    assert lines[0][-4:] == ["min", "mean", "max", "samples"]
    assert lines[1] == ["GPU", "use", "0", "%", "42", "%", "100", "%", "3"]


def test_gaps_of_a_counter_are_times_without_a_sample(state):
    holed = counter([0, 300 * MS], [1, 2])
    trace = state.trace
    state = TimelineState(state.analysis, timeline_tracks(trace), counters=counter_tracks([holed]))
    state.resized(10)
    select(state, COUNTER)
    assert state.next_gap(1)
    assert (state.selected.start, state.selected.end) == (100 * MS, 300 * MS)
    assert state.largest_gap()


# Helper threads


@pytest.fixture
def helped():
    """A stream, a busy thread, and three that do next to nothing."""
    few = [cpu("aten::add", 100 * n, 1, tid=n) for n in (5, 6, 7)]
    trace = trace_of(named(1, "main"), cpu("aten::mm", 0, 5000, tid=1), gpu("gemm", 10, 4000), *few)
    tracks = timeline_tracks(trace)
    state = TimelineState(analyse(trace), tracks, helpers=helper_threads(trace, tracks))
    state.resized(10)
    return state


def test_helper_threads_are_one_row_that_opens(helped):
    assert kinds(helped) == ["device", "thread", HELPERS]
    assert rows_of(helped)[2].startswith(" 3 threads <1 %")
    assert rows_of(helped, 140)[2].startswith(" 3 threads under 1 %")
    select(helped, HELPERS)
    helped.fold()
    assert kinds(helped) == ["device", "thread", HELPERS, "thread", "thread", "thread"]
    assert rows_of(helped)[2].startswith("▶3 threads <1 % ")
    helped.fold()
    assert kinds(helped) == ["device", "thread", HELPERS]


def test_what_has_been_opened_is_on_screen(helped):
    helped.resized(4)
    select(helped, HELPERS)
    helped.fold()
    assert [shown.track.kind for shown in helped.on_screen()] == [HELPERS, *["thread"] * 3]
    assert helped.track.kind == HELPERS
    helped.resized(2)
    assert helped.on_screen()[0].track.kind == HELPERS


def test_their_row_shows_what_any_of_them_does_and_the_last_row_cannot_be_hidden(helped):
    select(helped, HELPERS)
    found = 0
    while helped.next_event(1):
        assert helped.trace.name_of(helped.selected.row) == "aten::add"
        found += 1
    assert found == 3
    for _ in range(5):
        helped.hide_track()
    assert len(helped.shown()) == 1


def test_a_jump_to_one_of_them_opens_the_row(helped):
    row = int(np.flatnonzero(helped.trace.track == next(iter(helped._helpers_of)))[0])
    assert helped.select_row(row)
    assert kinds(helped).count("thread") == 4
    assert helped.track.kind == "thread"


def test_one_that_is_pinned_is_shown(helped):
    select(helped, HELPERS)
    helped.fold()
    helped.move_track(1)
    helped.pin_track()
    select(helped, HELPERS)
    helped.fold()
    assert kinds(helped) == ["thread", "device", "thread", HELPERS]
