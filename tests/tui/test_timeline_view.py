from pathlib import Path

import numpy as np
import pytest
from textual.app import App
from textual.events import MouseScrollDown, MouseScrollUp
from textual.widgets import Input, Static

from perftui.analysis.analyse import analyse
from perftui.trace.errors import TraceError
from perftui.trace.model import NONE, Trace, Track
from perftui_tui.screens.timeline import TimelineView
from perftui_tui.widgets.cells import text_of
from perftui_tui.widgets.row_view import RowView
from perftui_tui.widgets.timeline import Timeline
from perftui_tui.widgets.timeline_rows import label_width
from perftui_tui.widgets.viewport import Viewport

MS = 1_000_000
NAMES = ("aten::mm", "cudaLaunchKernel", "aten::item", "gemm", "relu\x1b[2J[red]")
CATEGORIES = ("cpu_op", "cuda_runtime", "kernel")
# name, category, track, start, duration, correlation, parent, depth
EVENTS = (
    (0, 0, 0, 0, 10 * MS, NONE, NONE, 0),
    (1, 1, 0, 2 * MS, MS, 5, 0, 1),
    (2, 0, 0, 30 * MS, 60 * MS, NONE, NONE, 0),
    (1, 1, 0, 31 * MS, MS, 6, 2, 1),
    (3, 2, 1, 5 * MS, 15 * MS, 5, NONE, 0),
    (4, 2, 1, 50 * MS, 50 * MS, 6, NONE, 0),
)


def is_whole(view):
    return (view.start, view.end) == (view.first, view.last)


def trace_with(read_arguments=lambda row: {"Input Dims": [row, 8]}):
    columns = [np.asarray(column, np.int64) for column in zip(*EVENTS, strict=True)]
    name, category, track, start, duration, correlation, parent, depth = columns
    small, none = np.int32, np.full(len(EVENTS), NONE, np.int64)
    return Trace(
        Path("t.json"), start, duration, name.astype(small), category.astype(small),
        track.astype(small), correlation, none, none, parent.astype(small), depth.astype(small),
        NAMES, CATEGORIES, (Track("1", "7", "", "main"), Track("0", "7", device=0, stream=7)),
        0, None, read_arguments=read_arguments,
    )  # fmt: skip


class Host(App):
    def __init__(self, analysis):
        super().__init__()
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
        return str(self.query_one("#timeline-detail", Static).render())

    def selected(self):
        return None if self.state.selected is None else self.state.selected.row

    async def settle(self):
        await self.pilot.pause()
        await self.workers.wait_for_complete()
        await self.pilot.pause(0.04)

    async def press(self, *keys):
        await self.pilot.press(*keys)
        await self.settle()


@pytest.fixture
async def host():
    app = Host(analyse(trace_with()))
    async with app.run_test(size=(120, 40)) as pilot:
        app.pilot = pilot
        await app.settle()
        yield app


async def test_lanes_ruler_and_gaps(host):
    text = host.text()
    assert "GPU 0 stream 7" in text
    assert "main" in text
    assert "╷40 ms" in text
    assert "idle 30.0 ms" in text
    assert "\x1b" not in text


async def test_a_legend_says_what_colours_mean(host):
    legend = str(host.query_one("#timeline-legend", Static).render())
    assert " ".join(legend.split()) == "█ gemm/conv █ other kernel █ operator █ runtime call"


async def test_zoom_and_pan(host):
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


async def test_whole_beginning_and_end(host):
    await host.press("w", "end")
    assert host.state.view.end == 100 * MS
    await host.press("home")
    assert host.state.view.start == 0
    await host.press("0")
    assert is_whole(host.state.view)


async def test_events_and_their_detail(host):
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


async def test_gaps(host):
    await host.press("n")
    assert host.state.selected.is_gap
    assert "GPU 0 idle 30.0 ms" in host.detail()
    await host.press("0", "g")
    assert host.state.selected.is_gap
    await host.press("f")
    assert host.state.view.span == 36 * MS
    await host.press("f")
    assert is_whole(host.state.view)
    await host.press("N")
    assert host.state.selected.is_gap


async def test_threshold(host):
    await host.press("plus", "plus", "plus", "plus")
    assert "gaps>100 ms" in host.text()
    assert "idle 30.0 ms" not in host.text()
    await host.press("minus", "minus")
    assert "gaps>1 ms" in host.text()
    assert "idle 30.0 ms" in host.text()


async def test_lanes_by_arrow_and_page(host):
    await host.press("down")
    assert host.state.lane.depth == 0
    await host.press("pagedown")
    assert host.state.lane.depth == 1
    await host.press("pageup", "up")
    assert host.state.trace.tracks[host.state.lane.track].is_device


@pytest.mark.parametrize("key", ["e", "enter"])
async def test_fold(host, key):
    await host.press("down", key, key)
    assert "depth 1" not in host.text()
    assert "main +1" in host.text()
    await host.press(key)
    assert "depth 1" in host.text()


async def test_launch_and_kernel(host):
    await host.press("full_stop", "left_square_bracket")
    assert host.selected() == 1
    await host.press("right_square_bracket")
    assert host.selected() == 4


async def test_search(host):
    await host.press("slash", "L", "a", "u", "n", "c", "h", "enter")
    assert host.selected() == 1
    assert not host.query_one(Input).display
    await host.press("semicolon")
    assert host.selected() == 3
    await host.press("colon")
    assert host.selected() == 1
    await host.press("slash", "escape", "full_stop")
    assert host.selected() == 3


async def test_what_is_not_there_is_said(host):
    await host.press("left_square_bracket", "semicolon")
    said = {notification.message for notification in host._notifications}
    assert said == {"no launch of this event in the trace", "no event with that name"}


def cell(host, time_ms, lane):
    """Screen offset of a time on the lane so many rows below the first."""
    columns = host.timeline.size.width - label_width(host.timeline.size.width)
    x = label_width(host.timeline.size.width) + host.state.view.column(time_ms * MS, columns)
    return x, len(host.timeline.rows) - len(host.state.shown()) + lane


async def test_a_click_selects_an_event_or_a_gap(host):
    await host.pilot.click(Timeline, offset=cell(host, 40, 1))
    await host.settle()
    assert host.selected() == 2
    assert host.state.lane.depth == 0
    await host.pilot.click(Timeline, offset=cell(host, 40, 0))
    await host.settle()
    assert host.state.selected.is_gap


async def test_the_wheel_zooms_at_the_pointer(host):
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


async def test_a_drag_pans_and_selects_nothing(host):
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


async def test_the_same_trace_again_moves_nothing(host):
    await host.press("w", "full_stop")
    view, row = host.state.view, host.selected()
    host.view.show(host.analysis)
    await host.settle()
    assert (host.state.view, host.selected()) == (view, row)


async def test_a_new_trace_begins_anew(host):
    await host.press("w", "full_stop")
    host.view.show(analyse(trace_with()))
    await host.settle()
    assert host.state.view == Viewport.whole(0, 100 * MS)
    assert host.selected() is None


async def test_without_a_trace_it_says_how_to_get_one():
    app = Host(None)
    async with app.run_test(size=(80, 24)) as pilot:
        app.pilot = pilot
        await app.settle()
        assert app.query_one("#timeline-empty").display
        assert not app.timeline.display
        await app.press("w", "n", "g", "slash", "escape", "full_stop", "0")
        app.view.show(analyse(trace_with()))
        await app.settle()
        assert app.timeline.display


async def test_arguments_that_cannot_be_read_are_said():
    def gone(row):
        raise TraceError("t.json has changed since it was opened: open it again")

    app = Host(analyse(trace_with(gone)))
    async with app.run_test(size=(120, 40)) as pilot:
        app.pilot = pilot
        await app.settle()
        await app.press("full_stop")
        assert "t.json has changed" in app.detail()


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (120, 40), (200, 50)])
async def test_every_size_shows_lanes_and_detail(size):
    app = Host(analyse(trace_with()))
    async with app.run_test(size=size) as pilot:
        app.pilot = pilot
        await app.settle()
        await app.press("full_stop")
        assert "GPU" in app.text()
        assert "gemm" in app.detail()
        assert all(len(text_of(row)) == size[0] for row in app.timeline.rows)


async def test_ascii(monkeypatch):
    monkeypatch.setattr(RowView, "ascii_only", True)
    app = Host(analyse(trace_with()))
    async with app.run_test(size=(120, 40)) as pilot:
        app.pilot = pilot
        await app.settle()
        await app.press("n")
        assert app.text().isascii()


async def test_a_burst_of_keys_draws_few_frames(host, monkeypatch):
    drawn = []
    make_rows = host.timeline._make_rows
    monkeypatch.setattr(host.timeline, "_make_rows", lambda: drawn.append(1) or make_rows())
    for _ in range(40):
        host.timeline.action_pan(1)
        host.timeline.action_pan(-1)
    await host.settle()
    assert 1 <= len(drawn) <= 10
