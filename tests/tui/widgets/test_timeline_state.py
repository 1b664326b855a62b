"""Where one is on the timeline: the view, the selection, marks, the order of tracks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.analysis.timeline.track import PHASES, STEPS, THREAD, TimelineTrack, TrackIndex
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui.trace.model import NONE
from perftui_tui.look.rows import plain as text_of
from perftui_tui.screens.timeline import track_cells as module
from perftui_tui.screens.timeline.navigation import (
    SHORTEST_VIEW,
    TimeMarks,
    Viewport,
    find_matches,
    same_name,
)
from perftui_tui.screens.timeline.state import TimelineState
from perftui_tui.screens.timeline.track_cells import (
    STYLES,
    DrawnTracks,
    EventKind,
    Glyphs,
    KindsOfTrace,
    kind_of,
    merged,
    track_cells,
)
from perftui_tui.screens.timeline.widget import Pace
from tests.verify.benchmarks.bench_ten_million import trace_of

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


def test_gaps_of_a_thread_come_longest_first_and_then_again(make_trace):
    calls = [(name, 0, at * MS, MS) for name, at in (("a", 0), ("b", 3), ("c", 9), ("d", 10))]
    trace = make_trace(*calls)
    state = TimelineState(analyse(trace), timeline_tracks(trace))
    starts = []
    for _ in range(3):
        assert state.largest_gap()
        starts.append(state.selected.start // MS)
    assert starts == [4, 1, 4]


def test_zoom_keeps_the_selection_in_view(state):
    state.next_event(1)
    for _ in range(10):
        state.zoom(0.5)
        assert state.view.start <= 12.5 * MS <= state.view.end
    for _ in range(30):
        state.zoom(2)
    assert is_whole(state.view)


def test_a_search_begins_at_the_longest(state):
    state.matches = find_matches(state.trace, "CUDA")
    assert state.select_row(state.matches.longest)
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


def test_a_burst_costs_the_first_and_the_last_and_each_rests():
    started, rests = [], []
    pace = Pace(started.append, lambda seconds, rested: rests.append((seconds, rested)))
    for number in range(40):
        pace.want(number)
    assert started == [0]
    pace.done(0.1)
    assert started == [0]
    (seconds, rested), *_ = rests
    assert seconds == 0.1
    rested()
    assert started == [0, 39]
    pace.want(40)
    pace.forget()
    pace.done(0.1)
    rests[-1][1]()
    assert started == [0, 39]
    pace.want(41)
    assert started == [0, 39, 41]


COLUMNS = 40


def test_a_view_that_stays_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(6000)
    kinds, glyphs = KindsOfTrace(trace), Glyphs()
    track = timeline_tracks(trace)[0]
    calls = []

    def counted(*arguments: object) -> object:
        calls.append(arguments)
        return track_cells(*arguments)  # the same, handed through

    monkeypatch.setattr(module, "track_cells", counted)
    drawn = DrawnTracks(trace, kinds, glyphs)
    end = int(trace.start.max())
    whole, half = Viewport(0, end, 0, end), Viewport(0, end // 2, 0, end)

    def expected(view: Viewport, columns: int = COLUMNS) -> object:
        return track_cells(trace, kinds, track, view, columns, glyphs)

    first = drawn.cells(track, whole, COLUMNS)
    assert first == expected(whole)
    first[0] = ("x", "selected")
    assert drawn.cells(track, whole, COLUMNS) == expected(whole), "it was drawn over"
    assert len(calls) == 1
    assert drawn.cells(track, half, COLUMNS) == expected(half)
    assert drawn.cells(track, whole, 20) == expected(whole, 20)
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("category", "name", "kind"),
    [
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", EventKind.COMMUNICATION),
        ("kernel", "sm90_xmma_gemm_bf16bf16_tn_n_tilesize128x128x64", EventKind.GEMM),
        ("kernel", "nvjet_tst_128x64_64x5_2x1_v_bz_TNT", EventKind.GEMM),
        ("kernel", "ampere_fp16_s16816gemm_fp16_128x64_ldg8", EventKind.GEMM),
        ("kernel", "void cudnn::cnn::wgrad_alg0_engine<float>", EventKind.GEMM),
        ("kernel", "volta_scudnn_128x64_relu_small_nn_v1", EventKind.GEMM),
        ("kernel", "void cudnn::bn_bw_1C11_singleread<float>", EventKind.NORM),
        (
            "kernel",
            "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>",
            EventKind.ATTENTION,
        ),
        ("kernel", "multi_tensor_apply_kernel<TensorListMetadata<4>>", EventKind.OPTIMIZER),
        ("kernel", "vectorized_layer_norm_kernel<float>", EventKind.NORM),
        ("kernel", "void at::native::vectorized_elementwise_kernel<4>", EventKind.ELEMENTWISE),
        ("kernel", "triton_poi_fused_add_0", EventKind.ELEMENTWISE),
        ("kernel", "my_kernel", EventKind.KERNEL),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", EventKind.COPY),
        ("cuda_runtime", "cudaLaunchKernel", EventKind.RUNTIME),
        ("cuda_runtime", "cudaStreamSynchronize", EventKind.WAIT),
        ("hip_runtime", "hipDeviceSynchronize", EventKind.WAIT),
        ("cpu_op", "aten::conv2d", EventKind.OPERATOR),
        ("python_function", "train.py(3): main", EventKind.PYTHON),
        ("user_annotation", "ProfilerStep#3", EventKind.RANGE),
        ("something new", "x", EventKind.RANGE),
    ],
)
def test_kinds_of_real_names(category, name, kind):
    assert kind_of(category, name) is kind


def test_each_kind_has_its_own_letter_and_word():
    assert len({kind.letter.upper() for kind in EventKind}) == len(EventKind)
    assert len({kind.word for kind in EventKind}) == len(EventKind)


@pytest.fixture
def steps(make_trace):
    """Four steps without a break, the last one shorter."""
    return make_trace(
        *((f"step {9 + at}", 0, at * 10 * MS, 10 * MS) for at in range(3)),
        ("step 12", 0, 30 * MS, 5 * MS),
    )


def track_of(trace, kind):
    rows = (trace.track == 0).nonzero()[0].astype("int32")
    return TimelineTrack(kind, kind, 0, 0, TrackIndex(rows, trace.start[rows], trace.ends_of(rows)))


def drawn(trace, kind, columns, glyphs):
    view = Viewport.whole(0, int(trace.end.max()))
    cells = track_cells(trace, KindsOfTrace(trace), track_of(trace, kind), view, columns, glyphs)
    return text_of(merged(cells))


@pytest.mark.parametrize(
    ("room", "words"),
    [(20, "step 10 10.0 ms"), (15, "step 10 10.0 ms"), (14, "10 10.0 ms"), (9, "10"), (2, "10"),
     (1, "")],
)  # fmt: skip
def test_a_step_never_shows_a_cut_number(steps, room, words):
    event_style = STYLES[STEPS](steps, KindsOfTrace(steps), None)
    assert event_style.label(1, room) == words


def test_steps_are_told_apart_while_each_has_two_columns(steps):
    assert drawn(steps, STEPS, 56, Glyphs()) == (
        "▏step 9 10.0 ms█▏step 10 10.0 ms▏step 11 10.0 ms▏12█████"
    )
    assert drawn(steps, STEPS, 14, Glyphs()) == "▏9██▏10█▏11█▏█"
    assert drawn(steps, STEPS, 7, Glyphs()) == "███████"
    assert drawn(steps, STEPS, 14, Glyphs(ascii_only=True)) == "[9OO[10O[11O[O"


@pytest.fixture
def phases(make_trace):
    return make_trace(
        ("input_wait", 0, 0, 10 * MS),
        ("forward", 0, 10 * MS, 20 * MS),
        ("backward", 0, 35 * MS, 5 * MS),
    )


def test_phases_are_called_as_everywhere_and_told_apart_without_colours(phases):
    assert drawn(phases, PHASES, 40, Glyphs()) == "▏wait█████▏forward████████████     ▏bwd█"
    assert drawn(phases, PHASES, 8, Glyphs(ascii_only=True)) == "DDFFFF B"
    agent = replace(phases, names=tuple(f"perftui::{name}" for name in phases.names))
    assert drawn(agent, PHASES, 40, Glyphs()) == drawn(phases, PHASES, 40, Glyphs())
    expected = "[wait DDDD[forward FFFFFFFFFFF     [bwd "
    for glyphs in (Glyphs(colours=False), Glyphs(ascii_only=True)):
        assert drawn(phases, PHASES, 40, glyphs) == expected
    assert drawn(phases, PHASES, 8, Glyphs(colours=False)) == "DDFFFF B"
    assert drawn(phases, THREAD, 8, Glyphs(colours=False)) == "██████ █"
