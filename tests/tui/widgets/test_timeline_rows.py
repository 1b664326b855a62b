from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.analyse import without_tables
from perftui.analysis.intervals import Intervals
from perftui.analysis.model import Gap, GapCause, Step
from perftui.analysis.timeline.track import DEVICE
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui_tui.charts.cells import LOWER_EIGHTHS
from perftui_tui.look.rows import plain as text_of
from perftui_tui.screens.timeline.gaps import DeviceGaps, largest_gap_row
from perftui_tui.screens.timeline.navigation import (
    Selection,
    TimeMarks,
    Viewport,
    event,
    find_matches,
)
from perftui_tui.screens.timeline.rows import (
    Scene,
    head_rows,
    label_width,
    minimap,
    minimap_index,
    phase_cells,
    track_name,
    track_rows,
)
from perftui_tui.screens.timeline.state import TimelineState
from perftui_tui.screens.timeline.track_cells import Glyphs, KindsOfTrace, merged, track_cells
from perftui_tui.screens.timeline.tracks import shown_tracks
from perftui_tui.screens.timeline.widget import with_ascii_ends
from tests.tui.driving import in_ascii
from tests.tui.traces import traced

MS = 1_000_000
COLOURED = Glyphs()


def gap(start, end, cause=GapCause.INPUT_WAIT, device=0):
    return Gap(device, start, end, 0, 1, cause, -1, -1)


def drawn(trace, track, view, columns, glyphs=COLOURED):
    cells = track_cells(trace, KindsOfTrace(trace), track, view, columns, glyphs)
    return "".join(glyph for glyph, _ in cells)


def scene(trace, steps=(), phases=(), ascii_only=False):
    scene = Scene(state_of(trace), Glyphs(ascii_only))
    scene.steps, scene.phases = steps, phases
    return scene


def state_of(trace, threshold=0, view=None, selected=None):
    """Everything in view, on a screen of ten tracks; gaps count from 1 µs on."""
    state = TimelineState(without_tables(trace), timeline_tracks(trace))
    state.resized(10)
    state.change_threshold(threshold - 2)
    state.view = view or state.view
    state.selected = selected
    return state


def track_text(trace, width=60, threshold=0, place=0, **options):
    state = state_of(trace, threshold, options.pop("view", None))
    state.gaps = DeviceGaps(options.pop("gaps", ()))
    return text_of(track_rows(scene(trace, **options), state, width)[place])


def ascii_text(row):
    return in_ascii(text_of(with_ascii_ends(row)))[0]


def head(trace, state, width=60, **options):
    """By name what each row above the tracks says."""
    rows = head_rows(scene(trace, **options), state, width)
    return {name: text_of(row) for name, row in rows.items()}


def test_events_are_drawn_by_share_by_name_and_to_an_eighth_of_a_cell(make_trace):
    events = [("gemm", 1, start * 100, busy) for start, busy in enumerate((100, 50, 1, 99, 25, 0))]
    trace = make_trace(*(event for event in events if event[3]))
    track = timeline_tracks(trace)[0]
    assert drawn(trace, track, Viewport(0, 600, 0, 600), 6) == "█▄▁▇▂ "
    trace = make_trace(("aten::mm", 1, 0, 100), ("relu", 1, 150, 50))
    track = timeline_tracks(trace)[0]
    view = Viewport(0, 200, 0, 200)
    assert drawn(trace, track, view, 40) == "▏aten::mm███████████          ▏relu█████"
    assert drawn(trace, track, view, 40, Glyphs(colours=False)) == (
        "aten::mm████████████          relu██████"
    )
    assert drawn(trace, track, view, 40, Glyphs(ascii_only=True)) == (
        "[aten::mmKKKKKKKKKKK          [reluKKKKK"
    )
    trace = make_trace(("gemm", 1, 25, 150))
    track = timeline_tracks(trace)[0]
    cells = track_cells(trace, KindsOfTrace(trace), track, Viewport(0, 200, 0, 200), 4, Glyphs())
    assert cells == [("▌", "gemm-edge"), ("█", "gemm"), ("█", "gemm"), ("▌", "gemm")]
    trace = make_trace(("a\x1b[31m\u202eb日", 1, 0, 100))
    text = drawn(trace, timeline_tracks(trace)[0], Viewport(0, 100, 0, 100), 40)
    assert text.startswith("▏a\\x1b[31m\\u202eb?█")


SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=40)


@given(SPANS, st.integers(1, 60), st.integers(0, 500), st.integers(1_000, 3_000))
def test_blank_is_idle_and_full_is_busy(spans, columns, begin, length):
    trace, track = _one_track(spans)
    view = Viewport(begin, begin + length, 0, 10_000)
    busy = track.index.busy(view.start, view.end, columns)
    widths = np.diff([begin + i * length // columns for i in range(columns + 1)])
    mono = Glyphs(colours=False)
    cells = track_cells(trace, KindsOfTrace(trace), track, view, columns, mono)
    for (glyph, style), part, width in zip(cells, busy, widths, strict=True):
        assert (glyph == " " and not style) == (part == 0)
        if glyph in LOWER_EIGHTHS:
            assert (glyph == "█") == (part == width)
        else:
            assert part == width


def _one_track(spans):
    """A track of events, each (idle before it, its duration), all of one name."""
    events, now = [], 0
    for idle, duration in spans:
        events.append(("gemm", 1, now + idle, duration))
        now += idle + duration
    trace = traced(*events)
    return trace, timeline_tracks(trace)[0]


def test_gap_row_is_logarithmic():
    gaps = np.asarray([0, 999, 1000, 3200, 10_000, 100_000, 10**9])
    assert largest_gap_row(gaps, 1000, False) == "  ▁▂▃▅█"
    assert largest_gap_row(gaps, 1000, True).isascii()


def test_a_gap_is_said_in_words_with_its_cause_where_there_is_room(make_trace):
    trace = make_trace(("a", 1, 0, 10 * MS), ("b", 1, 40 * MS, 8 * MS))
    text = track_text(trace, width=60, gaps=[gap(10 * MS, 40 * MS)])
    assert "├─ idle 30.0 ms loader wait ─┤" in text
    assert "├─────── idle 30.0 ms ───────┤" in track_text(trace, width=60)
    assert "idle" not in track_text(trace, width=60, threshold=6)
    state = state_of(trace)
    state.gaps = DeviceGaps([gap(10 * MS, 40 * MS)])
    rows = track_rows(scene(trace, ascii_only=True), state, 60)
    assert "<- idle 30.0 ms loader wait ->" in ascii_text(rows[0])
    trace = make_trace(
        ("loader.next", 0, 9 * MS, 30 * MS), ("a", 1, 0, 10 * MS), ("b", 1, 40 * MS, 8 * MS)
    )
    known = replace(gap(10 * MS, 40 * MS), operator_row=0)
    assert "idle 30.0 ms data loader wait in loader.next" in track_text(
        trace, width=100, gaps=[known]
    )
    assert "idle 30.0 ms loader wait ─" in track_text(trace, width=60, gaps=[known])
    # A gap that goes on has no end.
    trace = make_trace(("a", 1, 0, 10 * MS), ("b", 1, 90 * MS, 10 * MS))
    text = track_text(trace, view=Viewport(20 * MS, 80 * MS, 0, 100 * MS))
    assert "─ idle 80.0 ms ─" in text
    assert "├" not in text
    assert "┤" not in text


def test_gaps_are_said_on_the_selected_track_and_on_whole_devices(make_trace):
    trace = make_trace(("a", 0, 0, 10 * MS), ("b", 0, 40 * MS, 8 * MS), ("k", 1, 0, 48 * MS))
    assert "idle" not in track_text(trace, place=1)
    state = state_of(trace)
    state.move_track(1)
    assert "idle 30.0 ms" in text_of(track_rows(scene(trace), state, 60)[1])
    # An idle stream of a busy device has no cause.
    gaps = DeviceGaps([gap(10, 40), gap(100, 200, GapCause.LAUNCH), gap(0, 500, device=1)])
    assert gaps.over(0, 12, 45).cause.value == "data loader wait"
    assert gaps.over(0, 0, 90) is None
    assert gaps.over(0, 90, 210).cause.value == "launch-bound"
    assert gaps.over(2, 90, 210) is None


def test_head_says_where_one_is(make_trace):
    trace = make_trace(("a", 1, 0, 40 * MS), ("b", 1, 60 * MS, 40 * MS))
    steps = (Step(3, 0, 50 * MS, 0), Step(4, 50 * MS, 100 * MS, 1))
    state = state_of(trace, threshold=2, view=Viewport(0, 50 * MS, 0, 100 * MS))
    state.select_row(0)
    rows = head(trace, state, steps=steps)
    assert list(rows) == ["minimap", "ruler", "steps", "gaps"]
    assert rows["minimap"].startswith("50.0 ms  ")
    assert head(trace, state, 80)["minimap"].startswith("view 50.0 ms  ")
    assert "▼" in rows["ruler"]
    assert "│step 3 50.0 ms" in rows["steps"]
    assert rows["gaps"].startswith("gaps>50 µs")
    assert {len(row) for row in rows.values()} == {60}


def test_the_minimap_is_of_all_and_shows_the_view(make_trace):
    trace = make_trace(("a", 1, 0, 50), ("b", 1, 50, 25), ("c", 1, 99, 1))
    index = minimap_index(timeline_tracks(trace))
    view = Viewport(20, 40, 0, 100)
    cells = minimap(index, view, 10, COLOURED)
    assert "".join(glyph for glyph, _ in cells) == "██[]███▄ ▁"
    assert [at for at, (_, style) in enumerate(cells) if style == "view"] == [2, 3]
    whole = minimap(index, Viewport.whole(0, 100), 10, COLOURED)
    assert "".join(glyph for glyph, _ in whole) == "███████▄ ▁"
    point = minimap(index, Viewport(81, 82, 0, 100), 10, Glyphs(ascii_only=True))
    assert [at for at, (glyph, _) in enumerate(point) if glyph == "|"] == [8]
    # Of a thread it shows the calls and not the step.
    trace = make_trace(
        ("step", 0, 0, 100), ("a", 0, 10, 5),
        ("b", 0, 20, 5),
    )  # fmt: skip
    assert minimap_index(timeline_tracks(trace)).start.tolist() == [10, 20]


def phases(**spans):
    columns = {name: np.asarray(span, np.int64).reshape(-1, 2) for name, span in spans.items()}
    return {name: Intervals(pairs[:, 0], pairs[:, 1]) for name, pairs in columns.items()}


def test_phases_are_named_where_they_fit(make_trace):
    trace = make_trace(("a", 1, 0, 1000))
    known = phases(input_wait=[(0, 500)], forward=[(500, 990)], optimizer=[(990, 1000)])
    row = head(trace, state_of(trace), width=52, phases=known)["phases"]
    assert row[:12] == "phases      "
    assert row[12:].split()[:4] == ["data", "loader", "wait", "forward"]
    ascii_row = head(trace, state_of(trace), width=52, phases=known, ascii_only=True)["phases"]
    assert ascii_row[12:] == "[data loader wait DD[forward FFFFFFFFFFF"[:39] + ascii_row[51:]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30), st.integers(0, 2)), min_size=1),
    st.integers(1, 60),
)
def test_every_column_has_the_phase_that_fills_most_of_it(stretches, columns):
    spans, now = ([], [], []), 0
    for idle, length, which in stretches:
        spans[which].append((now + idle, now + idle + length))
        now += idle + length
    names = ("input_wait", "forward", "backward")
    known = phases(**dict(zip(names, spans, strict=True)))
    cells = phase_cells(known, Viewport.whole(0, now), columns, Glyphs(colours=False))
    styles = [style.removeprefix("phase-") for _, style in cells]
    for at, style in enumerate(styles):
        low, high = now * at // columns, now * (at + 1) // columns
        shares = [sum(max(0, min(e, high) - max(s, low)) for s, e in of) for of in spans]
        most = max(shares)
        assert style == (names[shares.index(most)] if most else "")


def test_marks_and_what_lies_between_them(make_trace):
    trace = make_trace(("a", 1, 0, 10 * MS), ("b", 1, 40 * MS, 60 * MS))
    state = state_of(trace)
    assert "range" not in head(trace, state)
    state.marks = TimeMarks(20 * MS)
    assert "├ 20 ms" in head(trace, state)["range"]
    state.marks = TimeMarks(20 * MS, 60 * MS)
    assert head(trace, state)["range"] == (
        "marks                ├──── 40.0 ms ─────┤                   "
    )
    state.marks = TimeMarks(60 * MS, 60 * MS + 5)
    assert "│ 5 ns" in head(trace, state)["range"]
    state.view = Viewport(30 * MS, 50 * MS, 0, 100 * MS)
    state.marks = TimeMarks(20 * MS, 60 * MS)
    assert "─ 40.0 ms ─" in head(trace, state)["range"]
    assert not set("├┤") & set(head(trace, state)["range"])
    # Those outside the view are pointed to.
    trace = make_trace(("a", 1, 0, 100 * MS))
    state = state_of(trace, view=Viewport(40 * MS, 50 * MS, 0, 100 * MS))
    state.marks = TimeMarks(10 * MS, 20 * MS)
    assert "◄ 10.0 ms " in head(trace, state)["range"]
    state.marks = TimeMarks(60 * MS, 80 * MS)
    assert head(trace, state)["range"].endswith(" 20.0 ms ►")
    # They go through idle time alone.
    trace = make_trace(("a", 0, 0, 50 * MS), ("k", 1, 50 * MS, 50 * MS))
    state = state_of(trace, threshold=6)
    state.marks = TimeMarks(25 * MS, 75 * MS)
    device, thread = (text_of(row) for row in track_rows(scene(trace), state, 60))
    assert (device.index("│"), thread.index("│")) == (24, 48)
    assert device.count("│") == thread.count("│") == 1


def test_what_a_search_found_is_marked_and_counted(make_trace):
    trace = make_trace(("mm", 1, 0, 30 * MS), ("relu", 1, 50 * MS, 10 * MS), ("mm", 1, 90 * MS, MS))
    state = state_of(trace)
    state.matches = find_matches(trace, "MM")
    row = head(trace, state)["found"]
    assert row.startswith("found 2 ")
    assert [at for at, glyph in enumerate(row) if glyph == "▾"] == [12, 12 + 47]
    styles = {style for _, style in track_rows(scene(trace), state, 60)[0]}
    assert "match" in styles
    assert "kernel" in styles
    state.next_match(1)
    assert head(trace, state)["found"].startswith("found 1/2")


def test_a_pointer_hides_no_part_of_a_number(make_trace):
    trace = make_trace(("a", 1, 0, 100 * MS))
    state = state_of(trace)
    for start in range(0, 100 * MS, 2 * MS):
        state.selected = Selection(start, start, 0, state.track)
        words = head(trace, state, 100)["ruler"].replace("▼", "").replace("╷", " ").split()
        assert all(word in ("0", "20", "40", "60", "80", "ms", "ns") for word in words)


def linked(make_trace, wait=30 * MS):
    launch = {"cat": "cuda_runtime", "correlation": 5}
    return make_trace(
        ("aten::mm", 0, 0, 100 * MS),
        ("launch", 0, 20 * MS, 10 * MS, launch),
        ("gemm", 1, 20 * MS + wait, 40 * MS, {"correlation": 5}),
    )


@pytest.mark.parametrize("row", [1, 2])
def test_an_arrow_joins_a_call_and_its_kernel(make_trace, row):
    trace = linked(make_trace)
    state = state_of(trace, threshold=6)
    state.select_row(row)
    device, op, call = (text_of(each) for each in track_rows(scene(trace), state, 112))
    begin, head = label_width(112) + 18, label_width(112) + 45
    assert device[begin:head] == "┌" + "─" * (head - begin - 2) + "►"
    assert op[begin] == "│"
    assert "launch" in call
    styles = [style for each in track_rows(scene(trace), state, 112) for _, style in each]
    assert any(style.startswith("linked") for style in styles)
    assert any(style.startswith("selected") for style in styles)


def test_an_arrow_in_ascii_and_to_what_is_outside_the_view(make_trace):
    trace = linked(make_trace)
    state = state_of(trace, threshold=6)
    state.select_row(1)
    rows = [ascii_text(each) for each in track_rows(scene(trace, ascii_only=True), state, 112)]
    assert "+-------" in rows[0]
    assert "->[gemm" in rows[0]
    assert rows[1][label_width(112) + 18] == "|"
    state.view = Viewport(0, 40 * MS, 0, 100 * MS)
    assert "10.0 ms ►" in text_of(track_rows(scene(trace), state, 112)[0])
    state.select_row(2)
    state.view = Viewport(50 * MS, 90 * MS, 0, 100 * MS)
    assert "◄ 30.0 ms" in text_of(track_rows(scene(trace), state, 112)[2])


def test_an_arrow_hides_no_work(make_trace):
    """Kernels that ran while this one waited in the queue stay to be seen."""
    trace = make_trace(
        ("launch", 0, 0, 10, {"cat": "cuda_runtime", "correlation": 5}),
        ("busy", 1, 20, 50),
        ("gemm", 1, 80, 20, {"correlation": 5}),
    )
    state = state_of(trace)
    without = text_of(track_rows(scene(trace), state, 112)[0])
    state.select_row(2)
    drawn = text_of(track_rows(scene(trace), state, 112)[0])
    pairs = list(zip(without, drawn, strict=True))
    assert all(one == other for one, other in pairs[label_width(112) :] if one.isalnum())
    assert without != drawn


@pytest.mark.parametrize("width", [20, 80, 120, 200])
def test_rows_are_as_wide_as_the_screen(make_trace, width):
    trace = make_trace(("a", 1, 0, 10 * MS), ("b", 1, 40 * MS, 8 * MS))
    assert len(track_text(trace, width=width)) == width
    assert 12 <= label_width(width) <= 28


def test_a_selected_event_or_gap_is_drawn_as_such(make_trace):
    trace = make_trace(("a", 1, 0, 10 * MS), ("b", 1, 40 * MS, 8 * MS))
    state = state_of(trace)
    state.selected = event(trace, state.track, 1)
    row = track_rows(scene(trace), state, 60)[0]
    assert [style for _, style in row if style.startswith("selected-") or style == "selected"]
    state.selected = Selection(10 * MS, 40 * MS, -1, state.track)
    row = track_rows(scene(trace), state, 60)[0]
    assert [text.strip() for text, style in row if style == "selected"] == [
        "├─────── idle 30.0 ms ───────┤"
    ]
    assert not any(style == "gap" for _, style in row)


def test_deeper_calls_stand_further_right_and_fold_to_those_with_most_events(make_trace):
    state = state_of(make_trace(*[("call", 0, 0, 900)] * 5))
    state.resized(3)
    for width in (60, 80):
        rows = track_rows(scene(state.trace), state, width)
        labels = [text_of(row)[: label_width(width)].rstrip() for row in rows]
        assert labels == ["▶main", "   └ 1", "    └ 2 +2"]
    events = [("root", 0, 0, 1000), ("call", 0, 0, 900)]
    events += [("op", 0, 10 * i, 5) for i in range(9)] + [("sub", 0, 10 * i, 2) for i in range(9)]
    tracks = timeline_tracks(make_trace(*events))
    depths = {
        state: [(shown.track.depth, shown.hidden) for shown in shown_tracks(tracks, 3, opened)]
        for state, opened in ((None, {}), (True, {0: True}), (False, {0: False}))
    }
    assert depths == {
        None: [(0, 0), (2, 0), (3, 1)],
        True: [(0, 0), (1, 0), (2, 0), (3, 0)],
        False: [(0, 3)],
    }


def test_overlapping_work_has_a_track_of_its_own_and_blanks_no_colour(make_trace):
    trace = make_trace(("a", 1, 0, 100), ("b", 1, 50, 100))
    labels = [text_of(row)[:16] for row in track_rows(scene(trace), state_of(trace), 80)]
    assert labels == ["▶GPU 0 stream 7 ", "   overlapping  "]
    labels = [text_of(row)[:12] for row in track_rows(scene(trace), state_of(trace), 60)]
    assert labels == ["▶GPU 0 s7   ", "   overlap  "]
    assert merged([("█", "gemm"), (" ", ""), ("█", "gemm"), (" ", "")]) == (("█ █ ", "gemm"),)
    assert merged([("x", "gemm-name"), (" ", ""), ("y", "")]) == (("x", "gemm-name"), (" y", ""))


@pytest.mark.parametrize(
    ("label", "room", "words"),
    [
        ("rank 3 GPU 0 stream 20", 22, "rank 3 GPU 0 stream 20"),
        ("rank 3 GPU 0 stream 20", 21, "r3 GPU 0 stream 20"),
        ("rank 3 GPU 0 stream 20", 14, "r3 GPU 0 s20"),
        ("GPU 0 stream 20", 14, "GPU 0 s20"),
        ("GPU 0 no stream", 14, "GPU 0 s?"),
        ("rank 12 thread 19566 (python3)", 14, "r12 t19566"),
        ("thread 12263 (python)", 21, "thread 12263 (python)"),
        ("thread 12263 (python)", 20, "t12263 (python)"),
        ("thread 12263 (python)", 13, "t12263"),
        ("rank 0 thread 12526 (pt_gloo_runloop)", 27, "r0 t12526 (pt_gloo_runloop)"),
        ("loader (thread 3)", 9, "loader (thread 3)"),
    ],
)
def test_numbers_of_ranks_streams_and_threads_stay_where_a_label_is_long(
    make_trace, label, room, words
):
    kind = DEVICE if "GPU" in label else "thread"
    track = replace(timeline_tracks(make_trace(("a", 1, 0, 10)))[0], label=label, kind=kind)
    assert track_name(track, room) == words
