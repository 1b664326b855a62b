"""Counters and helper threads as tracks of the timeline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse, without_tables
from perftui.analysis.model import Step
from perftui.analysis.timeline.measure import measure
from perftui.analysis.timeline.track import COUNTER, HELPERS, MARKS, THREAD, Counter, intervals
from perftui.analysis.timeline.tracks import helper_threads, timeline_tracks
from perftui.trace.model import PYTHON
from perftui_tui.look.rows import plain
from perftui_tui.screens.timeline.counters import (
    counter_cells,
    counter_lines,
    counter_table,
    counter_tracks,
    counters_at,
)
from perftui_tui.screens.timeline.detail_lines import (
    MOST_NAMES,
    argument_lines,
    event_lines,
    further_lines,
    measure_lines,
    self_time,
    summary_lines,
)
from perftui_tui.screens.timeline.detail_pane import Line, Target, in_two, laid_out, side_by_side
from perftui_tui.screens.timeline.gaps import DeviceGaps, call_over, gap_lines
from perftui_tui.screens.timeline.navigation import Viewport
from perftui_tui.screens.timeline.rows import Scene, track_rows
from perftui_tui.screens.timeline.state import TimelineState
from perftui_tui.screens.timeline.track_cells import Glyphs
from tests.core.diagnosis.runs import ORIGIN, at_wall, run_with
from tests.traces.events import cpu, gpu, named, trace_of
from tests.tui.traces import traced

MS = 1_000_000


def texts(lines):
    return [line.text for line in lines]


def said_of(state, row):
    state.select_row(row)
    return texts(event_lines(state.trace, state.selected, state.launches))


def said_of_gap(state, selected, run=None, analysis=None):
    return texts(gap_lines(analysis or state.analysis, state.gaps, selected, run))


def test_the_detail_of_a_kernel_its_launch_and_its_operator(state):
    assert said_of(state, 6) == [
        "Memcpy DtoH",
        "gpu_memcpy (copy)  GPU 0 stream 7  start 50.0 ms  duration 10.0 ms"
        "  gap before 30.0 ms  gap after 100 ns  4.00 KiB  correlation 6",
        "launched by cudaLaunchKernel (main), began 19.0 ms after the call  [ jumps there",
        "in cudaLaunchKernel < aten::item",
    ]
    state.select_row(6)
    launch = event_lines(state.trace, state.selected, state.launches)[2]
    assert launch.place == Target(31 * MS, 32 * MS, 3)
    assert said_of(state, 0) == [
        "aten::mm",
        "cpu_op (operator)  main  start 0 ns  duration 10.0 ms  own 9.00 ms  gap after 20.0 ms",
        "launched gemm (GPU 0 stream 7), began 3.00 ms after the call  ] jumps there",
    ]
    assert self_time(state.trace, 2) == (60 - 1 - 20) * MS
    assert self_time(state.trace, 5) == 15 * MS


def test_a_long_name_leaves_the_figures_and_clock_skew_is_said(make_trace):
    name = f"void at::native::vectorized_elementwise_kernel<{', '.join(['at::Functor'] * 20)}>(int)"
    trace = make_trace((name, 1, 0, 10))
    state = TimelineState(without_tables(trace), timeline_tracks(trace))
    lines = said_of(state, 0)
    assert lines[0] == "elementwise functor"
    assert "duration 10 ns" in lines[1]
    assert lines[-1] == f"full name: {name}"
    trace = make_trace(
        ("launch", 0, 10_000, 5_000, {"cat": "cuda_runtime", "correlation": 5}),
        ("gemm", 1, 9_000, 5_000, {"correlation": 5}),
    )
    state = TimelineState(without_tables(trace), timeline_tracks(trace))
    assert "began 1.00 µs before the call (clock skew)" in said_of(state, 1)[2]


def test_a_gap_in_a_run_names_the_line_of_the_main_thread(state):
    state.largest_gap()
    analysis = replace(state.analysis, trace=replace(state.analysis.trace, wall_origin=ORIGIN))
    run = run_with(at_wall((25, 20, "/home/a/train.py", 8), (45, 100, "/home/a/train.py", 9)))
    said = said_of_gap(state, state.selected, run, analysis)
    assert "main thread at /home/a/train.py:8 for 67 % of the gap (2 samples)" in said
    elsewhere = run_with(at_wall((55, 20, "/home/a/train.py", 8)))
    unnamed = said_of_gap(state, state.selected, elsewhere, analysis)
    assert unnamed == said_of_gap(state, state.selected)


def test_a_gap_in_a_trace_with_stacks_names_the_python_call(trace, make_trace):
    assert call_over(trace, 0, 20 * MS, 50 * MS, PYTHON) == ""
    frame = {"cat": "python_function"}
    trace = make_trace(
        ("train.py(1): <module>", 0, 0, 100 * MS, frame),
        ("train.py(48): load", 0, 10 * MS, 60 * MS, frame),
        ("decode.py(3): short", 0, 12 * MS, MS, frame),
        ("aten::cat", 0, 30 * MS, 20 * MS),
        ("a", 1, 0, 5 * MS),
        ("b", 1, 65 * MS, 5 * MS),
    )
    assert call_over(trace, 0, 5 * MS, 65 * MS, PYTHON) == "train.py(48): load"
    assert call_over(trace, 0, 80 * MS, 90 * MS, PYTHON) == "train.py(1): <module>"
    assert call_over(trace, -1, 5 * MS, 65 * MS, PYTHON) == ""
    analysis = analyse(trace)
    state = TimelineState(analysis, timeline_tracks(trace))
    state.largest_gap()
    said = texts(gap_lines(analysis, state.gaps, state.selected, None, 0))
    assert "main thread in train.py(48): load" in said


def test_an_idle_stream_is_said_to_be_no_gap_only_where_that_is_known(state, monkeypatch):
    state.largest_gap()
    unlisted = replace(state.selected, start=51 * MS, end=52 * MS)
    assert "other streams" in said_of_gap(state, unlisted)[1]
    monkeypatch.setattr("perftui_tui.screens.timeline.gaps.MOST", len(state.analysis.gaps))
    shorter = replace(unlisted, end=unlisted.start + 50)
    assert "cause unknown" in said_of_gap(state, shorter)[1]
    longer = replace(unlisted, end=unlisted.start + 6 * MS)
    assert "other streams" in said_of_gap(state, longer)[1]


def test_idle_time_at_the_ends_is_a_gap_but_outside_the_recording_nothing_is_known(make_trace):
    trace = make_trace(
        ("aten::mm", 0, 0, 40 * MS), ("gemm", 1, 10 * MS, 5 * MS), ("relu", 1, 20 * MS, 5 * MS)
    )
    state = TimelineState(analyse(trace), timeline_tracks(trace))
    for clicked, words in ((1, "before gemm"), (39, "after relu")):
        state.select_at(state.track, clicked * MS, (clicked + 1) * MS)
        said = said_of_gap(state, state.selected)
        assert said[0].startswith("GPU 0 idle 1")
        assert words in said[-1]
    # Outside the recording of a device nothing is known.
    trace = make_trace(("aten::mm", 0, 0, 40 * MS), ("gemm", 1, 10 * MS, 5 * MS))
    state = TimelineState(analyse(trace), timeline_tracks(trace))
    state.gaps = DeviceGaps(())
    for clicked, words in ((1, "before the first activity"), (39, "after the last activity")):
        state.select_at(state.track, clicked * MS, (clicked + 1) * MS)
        assert f"{words} of GPU 0" in said_of_gap(state, state.selected)[1]


def test_blanks_between_ranges_on_a_stream_are_not_called_idle(make_trace):
    mark = {"cat": "gpu_user_annotation"}
    trace = make_trace(
        ("forward", 1, 0, 10 * MS, mark),
        ("gemm", 1, 0, 50 * MS),
        ("backward", 1, 20 * MS, MS, mark),
    )
    state = TimelineState(analyse(trace), timeline_tracks(trace))
    ranges = next(track for track in state.tracks if track.kind == MARKS)
    state.select_at(ranges, 15 * MS, 16 * MS)
    assert said_of_gap(state, state.selected) == [
        "nothing recorded for 10.0 ms",
        "GPU 0 stream 7  at 10.0 ms",
    ]


def test_a_gap_of_a_thread_in_the_data_loader_says_so(make_trace):
    trace = make_trace(
        ("perftui::input_wait", 0, 0, 50 * MS, {"cat": "user_annotation"}),
        ("aten::cat", 0, 0, 5 * MS),
        ("aten::mul", 0, 45 * MS, 5 * MS),
    )
    state = TimelineState(analyse(trace), timeline_tracks(trace))
    inner = next(track for track in state.tracks if track.kind == THREAD and track.depth == 1)
    state.select_at(inner, 20 * MS, 21 * MS)
    words = "no call at this depth for 40.0 ms, while the thread waits for the data loader"
    assert said_of_gap(state, state.selected)[0] == words


def test_a_gap_of_a_nested_row_is_told_from_idle_time(make_trace):
    trace = make_trace(
        ("aten::conv2d", 0, 0, 50 * MS), ("aten::pad", 0, 0, MS), ("aten::add", 0, 9 * MS, MS)
    )
    state = TimelineState(analyse(trace), timeline_tracks(trace))
    nested = next(track for track in state.tracks if track.depth == 1)
    state.select_at(nested, 5 * MS, 6 * MS)
    assert said_of_gap(state, state.selected) == [
        "no call at this depth for 8.00 ms",
        "main  at 1.00 ms  inside aten::conv2d",
    ]
    # Of a thread only those count that the row above the tracks counts.
    assert state.largest_gap()
    for _ in range(4):
        state.change_threshold(1)
    assert not state.largest_gap()


def test_shapes_come_first_stacks_by_frame_and_all_is_harmless():
    lines = texts(
        argument_lines(
            {
                "Sequence number": 4,
                "Call stack": "train.py(3): step;model.py(9): forward",
                "Input Dims": [[8, 3]],
                "Fwd thread id": 0,
                "long": "x" * 99,
            }
        )
    )
    assert lines[0] == "Input Dims=[[8, 3]]"
    assert lines[1] == "Sequence number=4  Fwd thread id=0"
    assert lines[2:5] == ["Call stack:", "  train.py(3): step", "  model.py(9): forward"]
    assert lines[5] == "long=" + "x" * 99
    lines = texts(argument_lines({"evil\x1b": "a\x1b[2J\nb", "long": "x" * 99_999}))
    assert all(line.isprintable() for line in lines)
    assert sum(map(len, lines)) < 2_200


def test_others_of_a_name_and_the_longest_one_click_away(state, make_trace):
    state.select_row(1)
    said = texts(further_lines(state.trace, state.selected))
    assert said[0] == "Input Dims=[[1, 8]]"
    assert said[1].startswith(
        "with this name: 2 events  sum 2.00 ms  shortest 1.00 ms  median 1.00 ms  longest 1.00 ms"
        "  none longer"
    )
    state.select_row(5)
    assert texts(further_lines(state.trace, state.selected))[1:] == [
        "the only event with this name"
    ]
    trace = make_trace(("a", 1, 0, 5), ("a", 1, 10, 30), ("a", 1, 50, 10))
    state = TimelineState(without_tables(trace), timeline_tracks(trace))
    state.select_row(0)
    lines = further_lines(trace, state.selected)
    assert "2 longer" in lines[1].text
    assert lines[2].place == Target(10, 40, 1)


def test_what_the_cpu_did_in_a_gap(state):
    state.largest_gap()
    said = texts(further_lines(state.trace, state.selected))
    assert said[0] == "meanwhile on the CPU  main in operators and calls for 20.0 ms"
    assert said[2].split() == ["19.0", "ms", "20.0", "ms", "1", "aten::item"]
    assert said[3].split() == ["1.00", "ms", "1.00", "ms", "1", "cudaLaunchKernel"]


def test_what_was_measured(state, make_trace):
    said = texts(measure_lines(state.trace, measure(state.trace, 10 * MS, 70 * MS)))
    assert said[:4] == [
        "measured 60.0 ms",
        "at 10.0 ms",
        "GPU 0  busy 25.0 ms (41.7 %)  idle 35.0 ms (58.3 %)  3 activities",
        "main  in operators and calls 40.0 ms (66.7 %)  3 events",
    ]
    assert [line.split()[-1] for line in said[5:]] == [
        "aten::item", "DtoH", "cudaStreamSynchronize", "gemm", "relu", "cudaLaunchKernel",
    ]  # fmt: skip
    # An empty range says so.
    said = texts(measure_lines(state.trace, measure(state.trace, 25 * MS, 25 * MS)))
    assert said[2] == "GPU 0  busy 0 ns (–)  idle 0 ns (–)  0 activities"
    assert said[-1] == "no events in this range"
    # Names that are left out are counted.
    trace = make_trace(*((f"k{at}", 1, 10 * at, 5) for at in range(MOST_NAMES + 3)))
    said = texts(measure_lines(trace, measure(trace, 0, 100_000)))
    assert said[-1] == "and 3 names with less time"


def test_a_summary_leads_to_what_stands_out(state):
    steps = tuple(Step(at, at * 20 * MS, (at + 1) * 20 * MS, 0) for at in range(3))
    slow = Step(3, 60 * MS, 90 * MS, 2)
    lines = summary_lines(replace(state.analysis, steps=(*steps, slow)))
    found = {line.text.strip(): line.place for line in lines}
    assert "4 steps, median 20.0 ms, 1 slow  ) next, } next slow" in found
    assert found["30.0 ms  step 3, 50.0 % above the median"] == Target(60 * MS, 90 * MS, 2)
    gap = next(text for text in found if text.startswith("30.0 ms") and "at 20.0 ms" in text)
    assert found[gap] == Target(20 * MS, 50 * MS)
    cause = next(text for text in found if text.endswith("gap  max 30.0 ms"))
    assert cause.startswith("19.9 ms  queue wait")
    assert found[cause] == Target(20 * MS, 50 * MS)
    assert found["60.0 ms  aten::item  1 call"] == Target(30 * MS, 90 * MS, 2)
    assert found["15.0 ms  gemm  1 call"] == Target(5 * MS, 20 * MS, 5)


def test_the_summary_of_a_trace_that_is_still_read_promises_no_figures(trace):
    said = texts(summary_lines(without_tables(trace)))
    assert said[-1] == "gaps and their causes follow once the whole trace is read"


@pytest.mark.parametrize("width", [2, 10, 30, 80])
def test_lines_fit_and_figures_stay_whole(width):
    lines = [
        Line("name " * 30, "bold"),
        Line("start 1 ms  duration 24.2 ms  gap before 3.00 µs", facts=True),
        Line("row of a table " * 9, one_row=True),
        Line("leads somewhere " * 9, place=Target(1, 2)),
    ]
    rows = [plain(row) for row, _ in laid_out(lines, width)]
    assert all(len(row) <= width for row in rows)
    assert [place for _, place in laid_out(lines, width)].count(Target(1, 2)) == 1
    if width >= 30:
        assert "start 1 ms  duration 24.2 ms" in "\n".join(rows)
    assert laid_out(lines, 1) == []


@given(st.lists(st.tuples(st.text("ab ", max_size=90), st.booleans()), max_size=12))
def test_two_columns_have_every_row_once_and_break_at_a_section(texts):
    lines = [Line(text, "bold" if is_head else "") for text, is_head in texts]
    left, right = in_two(lines, 40)
    assert [*left, *right] == laid_out(lines, 40)
    heads = [at for at, (_, is_head) in enumerate(texts) if is_head]
    sizes = [len(laid_out([line], 40)) for line in lines]
    breaks = [sum(sizes[:at]) for at in heads if sum(sizes[:at])]
    assert len(left) in (breaks or [sum(sizes)])
    tallest = max(len(left), len(right))
    assert all(tallest <= max(at, sum(sizes) - at) for at in breaks)
    rows = [plain(row) for row in side_by_side([r for r, _ in left], [r for r, _ in right], 43)]
    assert len(rows) == tallest
    for at, (row, _) in enumerate(right):
        assert rows[at][43:] == plain(row)


def test_times_have_three_digits_and_all_of_them_at_the_end(make_trace):
    trace = make_trace(("gemm", 1, 71_585_012, 24_230_104))
    state = TimelineState(without_tables(trace), timeline_tracks(trace))
    assert "start 71.6 ms  duration 24.2 ms" in said_of(state, 0)[1]
    last = further_lines(trace, state.selected)[-1].text
    assert last == "exactly 24.230104 ms, from 71.585012 ms to 95.815116 ms"


def counter(at, value, name="GPU use", unit="%", top=100.0, every=100 * MS):
    at = np.array(at, dtype=np.int64)
    start, end = intervals(at, every or 1, is_mean=False)
    short = name.rpartition(" ")[2][:3]
    value = np.array(value, dtype=np.float64)
    return Counter(name, short, unit, "made up", top, every, False, start, end, at, value)


USE = counter([0, 100 * MS, 200 * MS], [25, 0, 100])
MEMORY = counter([0], [2**31], "GPU memory", "B", 2.0**33)


@pytest.fixture
def counted():
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


def test_counters_stand_below_the_threads(counted):
    assert kinds(counted) == ["device", "thread", COUNTER, COUNTER]
    shown = rows_of(counted)
    assert shown[2].startswith(" use 0-100 %")
    assert shown[3].startswith(" mem 0-8 GiB")
    assert rows_of(counted, 120)[2].startswith(" GPU use 0-100 %")
    # Keys begin where there is something to find.
    assert counted.track.kind == "device"


def test_counters_fold_where_there_is_no_room_and_by_key(counted):
    counted.resized(3)
    assert kinds(counted) == ["device", "thread", COUNTER]
    assert rows_of(counted)[2].startswith(" use 0-100 % +1")
    select(counted, COUNTER)
    counted.fold()
    assert kinds(counted).count(COUNTER) == 2
    counted.resized(10)
    counted.fold()
    assert kinds(counted).count(COUNTER) == 1
    counted.fold()
    assert kinds(counted).count(COUNTER) == 2


def test_counters_are_hidden_and_moved_together(counted):
    select(counted, COUNTER)
    assert counted.reorder(-1)
    assert kinds(counted) == ["device", COUNTER, COUNTER, "thread"]
    counted.hide_track()
    assert kinds(counted) == ["device", "thread"]
    assert counted.hidden_count == 1


def test_keys_go_from_sample_to_sample(counted):
    select(counted, COUNTER)
    whole = counted.view
    found = []
    while counted.next_event(1):
        found.append(counted.track.selected_sample(counted.selected).value)
    assert found == [25, 0, 100]
    assert counted.next_event(-1)
    assert counted.view == whole
    counted.view = counted.view.showing(110 * MS, 120 * MS)
    inside = counted.view
    counted.selected = None
    assert counted.next_event(1)
    assert counted.track.selected_sample(counted.selected).value == 0
    assert counted.view == inside


def test_a_click_selects_the_sample_or_the_time_without_one(counted):
    use = next(shown.track for shown in counted.shown() if shown.track.kind == COUNTER)
    counted.select_at(use, 150 * MS, 151 * MS)
    lines = [line.text for line in counter_lines(use, counted.selected)]
    assert lines[0] == "GPU use: 0 %"
    assert "sampled every 100 ms, drawn until the next  at 100 ms" in lines
    assert "3 samples in the trace  min 0 %  max 100 %  a full cell is 100 %" in lines
    counted.select_at(use, 350 * MS, 351 * MS)
    assert counter_lines(use, counted.selected)[0].text == "GPU use: no sample for 100 ms"
    assert not counted.follow_launch(1)
    assert not counted.same_name(1)
    assert counted.steps == counted.analysis.steps


def test_values_meanwhile_and_the_table_of_the_whole_time(counted):
    memory = counted.counters[1]
    counted.select_at(memory, 0, 1)
    first = counter_lines(memory, counted.selected)[0].text
    assert first == "GPU memory: 2.00 GiB (2,147,483,648 B)"
    (line,) = counters_at(counted.counters, 0, 20 * MS)
    assert line.text == "meanwhile  GPU use 25 %  GPU memory 2.00 GiB"
    assert counters_at(counted.counters, 350 * MS, 351 * MS) == []
    lines = [line.text.split() for line in counter_table(counted.counters, counted.view)]
    assert lines[0][-4:] == ["min", "mean", "max", "samples"]
    assert lines[1] == ["GPU", "use", "0", "%", "42", "%", "100", "%", "3"]


def test_gaps_of_a_counter_are_times_without_a_sample(counted):
    holed = counter([0, 300 * MS], [1, 2])
    trace = counted.trace
    counted = TimelineState(
        counted.analysis, timeline_tracks(trace), counters=counter_tracks([holed])
    )
    counted.resized(10)
    select(counted, COUNTER)
    assert counted.next_gap(1)
    assert (counted.selected.start, counted.selected.end) == (100 * MS, 300 * MS)
    assert counted.largest_gap()


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
    row = int(np.flatnonzero(helped.trace.track == next(iter(helped.helpers_of)))[0])
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
