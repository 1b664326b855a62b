import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.lane_index import LaneIndex
from perftui.analysis.lanes import DEVICE, Lane, build_lanes
from perftui.analysis.model import Gap, GapCause, Step
from perftui_tui.charts.blocks import LOWER_EIGHTHS
from perftui_tui.widgets.cells import merged, text_of
from perftui_tui.widgets.event_kinds import KindsOfTrace
from perftui_tui.widgets.gap_words import DeviceGaps, IdleTime, largest_gap_row
from perftui_tui.widgets.lane_cells import Glyphs, lane_cells
from perftui_tui.widgets.lane_groups import ShownLane, shown_lanes
from perftui_tui.widgets.navigation import Selection
from perftui_tui.widgets.timeline_rows import Scene, head_rows, label_width, lane_row
from perftui_tui.widgets.viewport import Viewport

MS = 1_000_000
COLOURED = Glyphs()


def gap(start, end, cause=GapCause.INPUT_WAIT, device=0):
    return Gap(device, start, end, 0, 1, cause, -1, -1)


def drawn(trace, lane, view, columns, glyphs=COLOURED):
    cells = lane_cells(trace, KindsOfTrace(trace), lane, view, columns, glyphs)
    return "".join(glyph for glyph, _ in cells)


def scene(trace, gaps=(), steps=(), ascii_only=False):
    return Scene(trace, KindsOfTrace(trace), DeviceGaps(gaps), steps, Glyphs(ascii_only))


def lane_text(trace, width=60, threshold=1000, selected=True, mark=None, **options):
    lane = build_lanes(trace)[0]
    last = int((trace.start + trace.duration).max())
    view = options.pop("view", Viewport.whole(0, last))
    row = lane_row(scene(trace, **options), ShownLane(lane), view, width, threshold, selected, mark)
    return text_of(row)


def test_dense_columns_show_their_busy_share(make_trace):
    events = [("gemm", 1, start * 100, busy) for start, busy in enumerate((100, 50, 1, 99, 25, 0))]
    trace = make_trace(*(event for event in events if event[3]))
    lane = build_lanes(trace)[0]
    assert drawn(trace, lane, Viewport(0, 600, 0, 600), 6) == "█▄▁▇▂ "


def test_events_with_room_are_drawn_by_name(make_trace):
    trace = make_trace(("aten::mm", 1, 0, 100), ("relu", 1, 150, 50))
    lane = build_lanes(trace)[0]
    view = Viewport(0, 200, 0, 200)
    assert drawn(trace, lane, view, 40) == "▏aten::mm███████████          ▏relu█████"
    assert drawn(trace, lane, view, 40, Glyphs(colours=False)) == (
        "aten::mm████████████          relu██████"
    )
    assert drawn(trace, lane, view, 40, Glyphs(ascii_only=True)) == (
        "[aten::mmKKKKKKKKKKK          [reluKKKKK"
    )


def test_edges_are_drawn_to_an_eighth_of_a_cell(make_trace):
    trace = make_trace(("gemm", 1, 25, 150))
    lane = build_lanes(trace)[0]
    cells = lane_cells(trace, KindsOfTrace(trace), lane, Viewport(0, 200, 0, 200), 4, Glyphs())
    assert cells == [("▌", "gemm-edge"), ("█", "gemm"), ("█", "gemm"), ("▌", "gemm")]


def test_names_are_harmless(make_trace):
    trace = make_trace(("a\x1b[31m\u202eb日", 1, 0, 100))
    text = drawn(trace, build_lanes(trace)[0], Viewport(0, 100, 0, 100), 40)
    assert text.startswith("▏a\\x1b[31m\\u202eb?█")


SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=40)


@given(SPANS, st.integers(1, 60), st.integers(0, 500), st.integers(1_000, 3_000))
def test_blank_is_idle_and_full_is_busy(spans, columns, begin, length):
    trace, lane = _one_lane(spans)
    view = Viewport(begin, begin + length, 0, 10_000)
    busy = lane.index.busy(view.start, view.end, columns)
    widths = np.diff([begin + i * length // columns for i in range(columns + 1)])
    mono = Glyphs(colours=False)
    cells = lane_cells(trace, KindsOfTrace(trace), lane, view, columns, mono)
    for (glyph, style), part, width in zip(cells, busy, widths, strict=True):
        assert (glyph == " " and not style) == (part == 0)
        if glyph in LOWER_EIGHTHS:
            assert (glyph == "█") == (part == width)
        else:
            assert part == width


def _one_lane(spans):
    """A lane of events, each (idle before it, its duration), all of one name."""
    starts, ends, now = [], [], 0
    for idle, duration in spans:
        starts.append(now + idle)
        now += idle + duration
        ends.append(now)
    start, end = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    rows = np.arange(len(start), dtype=np.int32)
    trace = _TRACE(start, end - start)
    return trace, Lane("lane", DEVICE, 0, 0, LaneIndex(rows, start, end))


class _TRACE:
    """The columns that drawing reads."""

    names = ("gemm",)
    categories = ("kernel",)

    def __init__(self, start, duration):
        self.start, self.duration = start, duration
        self.name = self.category = np.zeros(len(start), np.int32)

    def name_of(self, _row):
        return "gemm"


def test_gap_row_is_logarithmic():
    gaps = np.asarray([0, 999, 1000, 3200, 10_000, 100_000, 10**9])
    assert largest_gap_row(gaps, 1000, False) == "  ▁▂▃▅█"
    assert largest_gap_row(gaps, 1000, True).isascii()


def test_a_gap_is_said_in_words_with_its_cause(make_trace):
    trace = make_trace(("a", 1, 0, 10 * MS), ("b", 1, 40 * MS, 8 * MS))
    text = lane_text(trace, width=60, gaps=[gap(10 * MS, 40 * MS)])
    assert "├─ idle 30.0 ms input wait ──┤" in text
    assert "├─────── idle 30.0 ms ───────┤" in lane_text(trace, width=60)
    assert "idle" not in lane_text(trace, width=60, selected=False)
    assert "idle" not in lane_text(trace, width=60, threshold=100 * MS)
    ascii_text = lane_text(trace, width=60, gaps=[gap(10 * MS, 40 * MS)], ascii_only=True)
    assert "<- idle 30.0 ms input wait -->" in ascii_text


def test_a_gap_that_goes_on_has_no_end(make_trace):
    trace = make_trace(("a", 1, 0, 10 * MS), ("b", 1, 90 * MS, 10 * MS))
    text = lane_text(trace, view=Viewport(20 * MS, 80 * MS, 0, 100 * MS))
    assert "─ idle 80.0 ms ─" in text
    assert "├" not in text
    assert "┤" not in text


def test_an_idle_stream_of_a_busy_device_has_no_cause():
    gaps = DeviceGaps([gap(10, 40), gap(100, 200, GapCause.LAUNCH), gap(0, 500, device=1)])
    assert gaps.cause(0, IdleTime(12, 45)) == "input wait"
    assert gaps.cause(0, IdleTime(0, 90)) == ""
    assert gaps.cause(0, IdleTime(90, 210)) == "launch-bound"
    assert gaps.cause(2, IdleTime(90, 210)) == ""


def test_head_says_where_one_is(make_trace):
    trace = make_trace(("a", 1, 0, 40 * MS), ("b", 1, 60 * MS, 40 * MS))
    lane = build_lanes(trace)[0]
    steps = (Step(3, 0, 50 * MS, 0), Step(4, 50 * MS, 100 * MS, 1))
    view = Viewport(0, 50 * MS, 0, 100 * MS)
    mark = Selection(0, 40 * MS, 0, lane)
    rows = [text_of(r) for r in head_rows(scene(trace, steps=steps), lane, view, 60, 50_000, mark)]
    assert rows[0].split()[:2] == ["view", "50.0"]
    assert rows[0].count("━") == rows[0].count("─")
    assert "▼" in rows[1]
    assert "│step 3 50.0 ms" in rows[2]
    assert rows[3].startswith("gaps>50 µs")
    assert [len(row) for row in rows] == [60] * 4


def test_a_pointer_hides_no_part_of_a_number(make_trace):
    trace = make_trace(("a", 1, 0, 100 * MS))
    lane = build_lanes(trace)[0]
    view = Viewport.whole(0, 100 * MS)
    for start in range(0, 100 * MS, 2 * MS):
        mark = Selection(start, start, 0, lane)
        row = text_of(head_rows(scene(trace), lane, view, 100, 50_000, mark)[1])
        words = row.replace("▼", "").replace("╷", " ").split()
        assert all(word in ("0", "20", "40", "60", "80", "ms", "ns") for word in words)


@pytest.mark.parametrize("width", [20, 80, 120, 200])
def test_rows_are_as_wide_as_the_screen(make_trace, width):
    trace = make_trace(("a", 1, 0, 10 * MS), ("b", 1, 40 * MS, 8 * MS))
    assert len(lane_text(trace, width=width)) == width
    assert 12 <= label_width(width) <= 28


def test_the_selected_event_is_drawn_as_such(make_trace):
    trace = make_trace(("a", 1, 0, 50), ("b", 1, 50, 50))
    lane = build_lanes(trace)[0]
    row = lane_row(
        scene(trace), ShownLane(lane), Viewport.whole(0, 100), 40, 1000, True,
        Selection(50, 100, 1, lane),
    )  # fmt: skip
    assert [style for _, style in row if style.startswith("selected-") or style == "selected"]


def test_depths_fold_to_those_with_most_events(make_trace):
    events = [("root", 0, 0, 1000), ("call", 0, 0, 900, {"depth": 1, "parent": 0})]
    events += [("op", 0, 10 * i, 5, {"depth": 2, "parent": 1}) for i in range(9)]
    events += [("sub", 0, 10 * i, 2, {"depth": 3, "parent": 2 + i}) for i in range(9)]
    order = sorted(range(len(events)), key=lambda i: (events[i][2], -events[i][3]))
    lanes = build_lanes(make_trace(*(events[i] for i in order)))
    depths = {
        state: [(shown.lane.depth, shown.hidden) for shown in shown_lanes(lanes, 3, tracks)]
        for state, tracks in ((None, {}), (True, {0: True}), (False, {0: False}))
    }
    assert depths == {
        None: [(0, 0), (2, 0), (3, 1)],
        True: [(0, 0), (1, 0), (2, 0), (3, 0)],
        False: [(0, 3)],
    }


def test_blanks_take_no_colour_of_their_own():
    assert merged([("█", "gemm"), (" ", ""), ("█", "gemm"), (" ", "")]) == (("█ █ ", "gemm"),)
    assert merged([("x", "gemm-name"), (" ", ""), ("y", "")]) == (("x", "gemm-name"), (" y", ""))


def test_a_selected_gap_is_drawn_as_such(make_trace):
    trace = make_trace(("a", 1, 0, 10 * MS), ("b", 1, 40 * MS, 8 * MS))
    lane, view = build_lanes(trace)[0], Viewport.whole(0, 48 * MS)
    mark = Selection(10 * MS, 40 * MS, -1, lane)
    row = lane_row(scene(trace), ShownLane(lane), view, 60, 1000, True, mark)
    assert [text.strip() for text, style in row if style == "selected"] == [
        "├─────── idle 30.0 ms ───────┤"
    ]
    assert not any(style == "gap" for _, style in row)


def test_overlapping_work_of_a_stream_has_a_lane_of_its_own(make_trace):
    trace = make_trace(("a", 1, 0, 100), ("b", 1, 50, 100))
    lanes = shown_lanes(build_lanes(trace), 10, {})
    labels = [
        text_of(lane_row(scene(trace), each, Viewport.whole(0, 150), 80, 1000, False, None))[:16]
        for each in lanes
    ]
    assert labels == [" GPU 0 stream 7 ", "   overlapping  "]
