from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from textual.app import App
from textual.events import MouseScrollDown, MouseScrollUp
from textual.widgets import Input, Static

from perftui.analysis.analyse import analyse
from perftui.analysis.model import Step
from perftui.trace.model import TraceError
from perftui_tui.keys.own_keys import hint
from perftui_tui.look.rows import plain as text_of
from perftui_tui.look.themes import DEFAULT_THEME, THEMES
from perftui_tui.screens.timeline.detail_lines import HINT
from perftui_tui.screens.timeline.detail_pane import DetailPane
from perftui_tui.screens.timeline.navigation import Viewport
from perftui_tui.screens.timeline.rows import label_width
from perftui_tui.screens.timeline.view import TimelineView
from perftui_tui.screens.timeline.widget import Timeline
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import in_ascii
from tests.tui.traces import traced

MS = 1_000_000
LAUNCH = {"cat": "cuda_runtime"}
EVENTS = (
    ("aten::mm", 0, 0, 10 * MS),
    ("cudaLaunchKernel", 0, 2 * MS, MS, LAUNCH | {"correlation": 5}),
    ("aten::item", 0, 30 * MS, 60 * MS),
    ("cudaLaunchKernel", 0, 31 * MS, MS, LAUNCH | {"correlation": 6}),
    ("gemm", 1, 5 * MS, 15 * MS, {"correlation": 5}),
    ("relu\x1b[2J[red]", 1, 50 * MS, 50 * MS, {"correlation": 6}),
)


def is_whole(view):
    return (view.start, view.end) == (view.first, view.last)


def trace_with(read_arguments=lambda row: {"Input Dims": [row, 8]}):
    return replace(traced(*EVENTS), read_arguments=read_arguments)


class Host(App):
    def __init__(self, analysis):
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DEFAULT_THEME
        self.analysis = analysis

    def compose(self):
        yield TimelineView()

    def on_mount(self):
        self.view = self.query_one(TimelineView)
        self.view.show(self.analysis)
        self.view.focus()

    @property
    def timeline(self):
        return self.query_one(Timeline)

    @property
    def state(self):
        return self.timeline.state

    def text(self):
        return "\n".join(text_of(row) for row in self.timeline.rows)

    def detail(self):
        return self.query_one(DetailPane).text

    def selected(self):
        return None if self.state.selected is None else self.state.selected.row

    async def settle(self):
        await self.pilot.pause()
        await self.workers.wait_for_complete()
        await self.pilot.pause(0.04)

    async def press(self, *keys):
        await self.pilot.press(*keys)
        await self.settle()


@asynccontextmanager
async def showing(analysis, size=(120, 40)):
    app = Host(analysis)
    async with app.run_test(size=size) as app.pilot:
        await app.settle()
        yield app


@pytest.fixture
async def host():
    async with showing(analyse(trace_with())) as app:
        yield app


async def test_tracks_ruler_gaps_and_a_legend_of_the_colours(host):
    text = host.text()
    assert "GPU 0 stream 7" in text
    assert "main" in text
    assert "╷40 ms" in text
    assert "idle 30.0 ms" in text
    assert "\x1b" not in text
    legend = str(host.query_one("#timeline-legend", Static).render())
    assert " ".join(legend.split()) == "█ gemm/conv █ other kernel █ operator █ runtime call"


@pytest.mark.keys(
    "timeline.zoom(1)", "timeline.zoom(-1)", "timeline.pan(-1)", "timeline.pan(1)",
    "timeline.edge(1)", "timeline.edge(-1)", "timeline.whole",
)  # fmt: skip
async def test_zoom_pan_and_both_ends(host):
    await host.press("w", "w")
    assert host.state.view.span == 25 * MS
    start = host.state.view.start
    await host.press("a")
    assert host.state.view.start < start
    await host.press("d", "right")
    assert host.state.view.start > start
    await host.press("left")
    assert host.state.view.start == start
    await host.press("s", "s", "s")
    assert is_whole(host.state.view)
    await host.press("w", "end")
    assert host.state.view.end == 100 * MS
    await host.press("home")
    assert host.state.view.start == 0
    await host.press("0")
    assert is_whole(host.state.view)


@pytest.mark.keys(
    "timeline.event(1)", "timeline.event(-1)", "timeline.follow(1)", "timeline.follow(-1)",
    "timeline.same_name(1)", "timeline.same_name(-1)",
)  # fmt: skip
async def test_events_their_detail_and_what_belongs_to_them(host):
    await host.press("full_stop")
    assert host.selected() == 4
    assert "gemm" in host.detail()
    assert "gap after 30.0 ms" in host.detail()
    assert "in cudaLaunchKernel < aten::mm" in host.detail()
    assert "Input Dims=[4, 8]" in host.detail()
    await host.press("full_stop")
    assert "relu\\x1b[2J[red]" in host.detail()
    await host.press("comma")
    assert host.selected() == 4
    await host.press("left_square_bracket")
    assert host.selected() == 1
    await host.press("right_square_bracket")
    assert host.selected() == 4
    await host.press("left_square_bracket", "greater_than_sign")
    assert host.selected() == 3
    await host.press("less_than_sign")
    assert host.selected() == 1
    await host.press("less_than_sign")
    assert "no more events with this name" in said(host)
    await host.press("escape")
    assert host.selected() is None
    assert hint(HINT) in host.detail()


@pytest.mark.keys(
    "timeline.gap(1)", "timeline.gap(-1)", "timeline.largest_gap", "timeline.fit",
    "timeline.threshold(1)", "timeline.threshold(-1)",
)  # fmt: skip
async def test_gaps_and_the_threshold(host):
    await host.press("n")
    assert host.state.selected.is_gap
    assert "GPU 0 idle 30.0 ms" in host.detail()
    await host.press("0", "g")
    selected = host.state.selected
    assert selected.is_gap
    await host.press("f")
    assert host.state.view.span == 1.2 * (selected.end - selected.start)
    await host.press("f")
    assert is_whole(host.state.view)
    await host.press("N")
    assert host.state.selected.is_gap
    await host.press("plus", "plus", "plus", "plus")
    assert "gaps>100 ms" in host.text()
    assert "idle 30.0 ms" not in host.text()
    await host.press("minus", "minus")
    assert "gaps>1 ms" in host.text()
    assert "idle 30.0 ms" in host.text()


@pytest.mark.keys(
    "timeline.track(1)", "timeline.track(-1)", "timeline.page(1)", "timeline.page(-1)",
    "timeline.fold",
)  # fmt: skip
async def test_tracks_by_arrow_and_page_and_folded(host):
    await host.press("down")
    assert host.state.track.depth == 0
    await host.press("pagedown")
    assert host.state.track.depth == 1
    await host.press("pageup", "up")
    assert host.state.trace.tracks[host.state.track.track].is_device
    await host.press("down", "e", "e")
    assert tracks(host)[-1] == "▶main +1"
    await host.press("enter")
    assert tracks(host)[-2:] == ["▶main", "└ 1"]


@pytest.mark.keys(
    "timeline.search.search", "timeline.search.close_search",
    "timeline.match(1)", "timeline.match(-1)",
)  # fmt: skip
async def test_search(host):
    await host.press("slash", *"Launch", "enter")
    assert host.selected() == 1
    assert not host.query_one(Input).display
    assert "2 events match 'Launch': ; next, : previous" in said(host)
    assert "found 1/2" in host.text()
    await host.press("semicolon")
    assert host.selected() == 3
    assert "found 2/2" in host.text()
    await host.press("colon")
    assert host.selected() == 1
    await host.press("slash", "escape", "full_stop")
    assert host.selected() == 3
    await host.press("slash", *"none", "enter")
    assert "0 events match 'none'" in said(host)
    await host.press("slash", "enter")
    assert "found" not in host.text()


async def test_what_is_not_there_is_said(host):
    await host.press("left_square_bracket", "semicolon")
    said = {notification.message for notification in host._notifications}
    assert said == {"no launch of this event in the trace", "no event has that name"}


def cell(host, time_ms, track):
    """Screen offset of a time on the track so many rows below the first."""
    columns = host.timeline.size.width - label_width(host.timeline.size.width)
    x = label_width(host.timeline.size.width) + host.state.view.column(time_ms * MS, columns)
    return x, len(host.timeline.rows) - len(host.state.on_screen()) + track


async def test_the_wheel_zooms_at_the_pointer_and_a_drag_pans(host):
    x, y = cell(host, 40, 0)
    columns = host.timeline.size.width - label_width(120)
    await host.pilot._post_mouse_events([MouseScrollUp], Timeline, offset=(x, y))
    await host.settle()
    assert host.state.view.span == 80 * MS
    assert abs(host.state.view.column(40 * MS, columns) - (x - label_width(120))) <= 1
    await host.pilot._post_mouse_events([MouseScrollDown], Timeline, offset=(x, y))
    await host.pilot._post_mouse_events([MouseScrollDown], Timeline, offset=(x, y), shift=True)
    await host.settle()
    assert is_whole(host.state.view)
    await host.press("w")
    start = host.state.view.start
    x, y = cell(host, 50, 0)
    await host.pilot.mouse_down(Timeline, offset=(x, y))
    await host.pilot.hover(Timeline, offset=(x + 20, y))
    await host.pilot.mouse_up(Timeline, offset=(x + 20, y))
    await host.settle()
    assert host.state.view.start < start
    assert host.selected() is None


async def test_a_jump_waits_for_the_trace():
    app = Host(analyse(trace_with()))
    async with app.run_test(size=(120, 40)) as pilot:
        app.pilot = pilot
        app.view.jump(31 * MS, 32 * MS, 3)
        await app.settle()
        assert app.selected() == 3
        assert app.state.view.fitted(31 * MS, 32 * MS) == app.state.view
        app.view.jump(20 * MS, 50 * MS)
        await app.settle()
        assert app.state.selected.is_gap


async def test_the_same_trace_again_moves_nothing_and_a_new_one_begins_anew(host):
    await host.press("w", "full_stop")
    view, row = host.state.view, host.selected()
    host.view.show(host.analysis)
    await host.settle()
    assert (host.state.view, host.selected()) == (view, row)
    host.view.show(analyse(trace_with()))
    await host.settle()
    assert host.state.view == Viewport.whole(0, 100 * MS)
    assert host.selected() is None


async def test_without_a_trace_it_says_how_to_get_one():
    async with showing(None, (80, 24)) as app:
        assert app.query_one("#timeline-empty").display
        assert not app.timeline.display
        await app.press("w", "n", "g", "slash", "escape", "full_stop", "0")
        app.view.show(analyse(trace_with()))
        await app.settle()
        assert app.timeline.display


async def test_arguments_that_cannot_be_read_are_said():
    def gone(row):
        raise TraceError("t.json has changed since it was opened: open it again")

    async with showing(analyse(trace_with(gone))) as app:
        await app.press("full_stop")
        assert "t.json has changed" in app.detail()


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (120, 40), (200, 50)])
async def test_every_size_shows_tracks_and_detail(size):
    async with showing(analyse(trace_with()), size) as app:
        await app.press("full_stop")
        assert "GPU" in app.text()
        assert "gemm" in app.detail()
        assert all(len(text_of(row)) == size[0] for row in app.timeline.rows)


async def test_ascii(monkeypatch):
    monkeypatch.setattr(RowView, "ascii_only", True)
    async with showing(analyse(trace_with())) as app:
        await app.press("n")
        assert "<-" in in_ascii(app.text())[0]


async def test_a_burst_of_keys_draws_few_frames(host, monkeypatch):
    drawn = []
    make_rows = host.timeline._make_rows
    monkeypatch.setattr(host.timeline, "_make_rows", lambda: drawn.append(1) or make_rows())
    for _ in range(40):
        host.timeline.action_pan(1)
        host.timeline.action_pan(-1)
    await host.settle()
    assert 1 <= len(drawn) <= 10


@pytest.mark.keys("timeline.measure", "timeline.mark")
async def test_what_is_in_view_or_between_marks_is_measured(host):
    await host.press("M")
    assert host.detail().startswith("measured 100 ms")
    assert "GPU 0  busy 65.0 ms (65.0 %)  idle 35.0 ms (35.0 %)  2 activities" in host.detail()
    await host.press("escape")
    await host.press("full_stop", "m")
    assert "marks" in host.text()
    await host.press("m")
    assert host.detail().startswith("measured 15.0 ms\nat 5.00 ms")
    assert "GPU 0  busy 15.0 ms (100 %)  idle 0 ns (0 %)  1 activity" in host.detail()
    await host.press("escape")
    assert host.state.marks.range is None
    assert host.detail().startswith("gemm")


def said(host):
    return {notification.message for notification in host._notifications}


def with_steps(*spans):
    analysis = analyse(trace_with())
    steps = [Step(at, low * MS, high * MS, 2 * at) for at, (low, high) in enumerate(spans)]
    return replace(analysis, steps=tuple(steps))


async def test_without_steps_it_says_so(host):
    await host.press("right_parenthesis", "right_curly_bracket")
    assert said(host) == {"no steps are marked in this trace"}


@pytest.mark.keys("timeline.hide", "timeline.show_hidden")
async def test_hide_and_show_also_in_the_next_window(host):
    await host.press("H")
    assert "GPU 0 stream 7" not in host.text()
    assert "1 hidden: U shows them" in str(host.query_one("#timeline-legend", Static).render())
    await host.press("H")
    assert "this is the last track shown" in said(host)
    await host.press("U")
    assert "GPU 0 stream 7" in host.text()
    assert "hidden" not in str(host.query_one("#timeline-legend", Static).render())
    await host.press("U")
    assert "nothing is hidden" in said(host)
    # Also in the next window.
    await host.press("up", "H")
    host.view.show(analyse(trace_with()))
    await host.settle()
    assert "GPU 0 stream 7" not in host.text()


def tracks(host):
    return [text_of(row)[:8].strip() for row in host.timeline.rows[-3:]]


@pytest.mark.keys("timeline.reorder(1)", "timeline.reorder(-1)", "timeline.pin")
async def test_move_and_pin(host):
    assert tracks(host) == ["▶GPU 0 s", "main", "└ 1"]
    await host.press("J")
    assert tracks(host) == ["main", "└ 1", "▶GPU 0 s"]
    await host.press("J")
    assert "this track cannot move further" in said(host)
    await host.press("p")
    assert tracks(host) == ["▶GPU 0 s", "main", "└ 1"]
    await host.press("down")
    assert tracks(host) == ["^GPU 0 s", "▶main", "└ 1"]
    await host.press("up", "p", "K")
    assert tracks(host) == ["▶GPU 0 s", "main", "└ 1"]


@pytest.mark.keys(
    "timeline.search.scroll_detail(1)",
    "timeline.search.scroll_detail(-1)",
    "timeline.search.tall_detail",
    "timeline.search.copy_detail",
)
async def test_the_detail_scrolls_grows_and_is_copied(host):
    copied = []
    host.copy_to_clipboard = copied.append
    await host.press("y")
    assert copied == [host.detail()]
    pane = host.query_one(DetailPane)
    height = pane.size.height
    await host.pilot.resize_terminal(80, 12)
    await host.settle()
    await host.press("v")
    assert pane.scroll_offset.y > 0
    await host.press("V")
    assert pane.scroll_offset.y == 0
    await host.press("V")
    assert "start of details" in said(host)
    pane.scroll_end(animate=False)
    await host.settle()
    await host.press("v")
    assert "end of details" in said(host)
    small = pane.size.height
    await host.press("i")
    assert pane.size.height > small
    await host.press("i")
    assert pane.size.height == small < height


async def test_tracks_take_the_rows_that_they_need_and_lines_of_the_detail_lead_there(host):
    rows = len(host.timeline.rows)
    assert host.timeline.size.height == rows
    assert host.query_one(DetailPane).size.height == 40 - rows - 2
    await host.press("down", "enter", "enter")
    assert host.timeline.size.height == rows - 1
    lines = host.detail().splitlines()
    place = next(at for at, line in enumerate(lines) if "30.0 ms" in line)
    await host.pilot.click(DetailPane, offset=(5, place + 1))
    await host.settle()
    assert host.state.selected.is_gap
    assert (host.state.selected.start, host.state.selected.end) == (20 * MS, 50 * MS)


async def test_a_wide_detail_has_two_columns_and_each_leads_somewhere():
    async with showing(analyse(trace_with()), (200, 20)) as app:
        pane = app.query_one(DetailPane)
        rows = [text_of(row) for row in pane.rows]
        at, cell = next(
            (y, row.index("aten::item")) for y, row in enumerate(rows) if "item  1 call" in row
        )
        assert cell > 100
        pane.scroll_to(y=at, animate=False, immediate=True)
        await app.pilot.pause()
        await app.pilot.click(DetailPane, offset=(cell, at - pane.scroll_offset.y + 1))
        await app.settle()
        assert app.state.trace.name_of(app.state.selected.row) == "aten::item"


async def test_a_click_selects_a_track_an_event_or_a_gap_and_two_fit(host):
    _, y = cell(host, 0, 2)
    await host.pilot.click(Timeline, offset=(2, y))
    await host.settle()
    assert host.state.track.depth == 1
    assert host.selected() is None
    await host.pilot.click(Timeline, offset=cell(host, 40, 1))
    await host.settle()
    assert host.selected() == 2
    assert host.state.track.depth == 0
    await host.pilot.click(Timeline, offset=cell(host, 40, 0))
    await host.settle()
    assert host.state.selected.is_gap
    await host.pilot.click(Timeline, offset=cell(host, 60, 0), times=2)
    await host.settle()
    assert host.selected() == 5
    assert (host.state.view.start, host.state.view.end) == (40 * MS, 100 * MS)


async def drag(host, start, end, **how):
    await host.pilot.mouse_down(Timeline, offset=start, **how)
    await host.pilot.hover(Timeline, offset=end)
    await host.pilot.mouse_up(Timeline, offset=end, **how)
    await host.settle()


@pytest.mark.slow
async def test_a_drag_with_shift_or_on_the_ruler_measures(host):
    # 100 columns, so that each is a millisecond.
    await host.pilot.resize_terminal(100 + label_width(125), 40)
    await host.settle()
    (x, y), (end, _) = cell(host, 25, 0), cell(host, 50, 0)
    await drag(host, (x, y), (end, y), shift=True)
    assert host.state.marks.range == (25 * MS, 50 * MS)
    assert host.detail().startswith("measured 25.0 ms")
    assert is_whole(host.state.view)
    (x, _), (end, _) = cell(host, 75, 0), cell(host, 50, 0)
    await drag(host, (x, 1), (end, 1))
    assert host.state.marks.range == (50 * MS, 75 * MS)


async def test_the_minimap_moves_the_view(host):
    x, _ = cell(host, 75, 0)
    await host.pilot.click(Timeline, offset=(x, 0))
    await host.settle()
    assert host.state.view.span == 10 * MS
    assert host.state.view.start < 75.5 * MS < host.state.view.end
    await drag(host, (x, 0), (label_width(120), 0))
    assert host.state.view.start == 0


@pytest.mark.keys(
    "timeline.step(1)", "timeline.step(-1)", "timeline.slow_step(1)",
    "timeline.slow_step(-1)",
)  # fmt: skip
async def test_steps_and_slow_steps():
    async with showing(with_steps((0, 30), (30, 95))) as app:
        x, _ = cell(app, 50, 0)
        await app.pilot.click(Timeline, offset=(x, 2))
        await app.settle()
        assert app.state.marks.range == (30 * MS, 95 * MS)
        assert text_of(app.timeline.rows[3]).startswith("phases")
        await app.pilot.click(Timeline, offset=(x, 3))
        await app.settle()
        assert app.state.marks.range == (30 * MS, 90 * MS)
        await app.press("escape")
        assert "│step 1 65.0 ms" in app.text()
        await app.press("right_parenthesis")
        assert app.selected() == 0
        await app.press("right_parenthesis")
        assert app.selected() == 2
        assert app.state.view.start < 30 * MS < 95 * MS < app.state.view.end
        await app.press("left_parenthesis")
        assert app.selected() == 0
        await app.press("right_curly_bracket")
        assert app.selected() == 2
        await app.press("right_curly_bracket")
        assert "no more steps took 33.0 ms or more (10 % above the median)" in said(app)
        await app.press("left_curly_bracket")
        assert app.selected() == 2
        await app.press("full_stop")
        before = app.text()
        app.theme = "perftui-ansi"
        await app.settle()
        assert app.text() == before
        assert all(app.timeline._style(name) for row in app.timeline.rows for _, name in row)
