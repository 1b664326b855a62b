from pathlib import Path

import numpy as np
import pytest
from textual.app import App
from textual.widgets import Input, Static

from perftui.analysis.model import DeviceActivity, KernelTable, OpTable, TraceAnalysis
from perftui.trace.model import Trace
from perftui_tui.screens.ops import OpsView
from perftui_tui.widgets.row_view import RowView
from perftui_tui.widgets.virtual_table import VirtualTable

MS = 1_000_000
HOSTILE = "evil\x1b[31m[bold]op"


def words(line):
    return " ".join(line.split())


def column(*values):
    return np.asarray(values, np.int64)


def empty_trace():
    none, small = column(), np.zeros(0, np.int32)
    return Trace(
        Path("t.json"), none, none, small, small, small, none, none, none, small, small,
        (), (), (), 0, None,
    )  # fmt: skip


def analysis_of(gpu=True, names=("aten::mm", "aten::add", HOSTILE)):
    device = column(6 * MS, 3 * MS, 0) if gpu else column(0, 0, 0)
    kernels = KernelTable(
        ("gemm", "Memcpy HtoD"), ("kernel", "gpu_memcpy"), column(3, 1),
        column(9 * MS, 1 * MS), column(2 * MS, MS), column(4 * MS, MS), column(70, 71),
    )  # fmt: skip
    none = KernelTable((), (), column(), column(), column(), column(), column())
    activity = DeviceActivity(0, "GPU", 3, 9 * MS, 1, MS, 0, 0, 0, 20 * MS, 10 * MS, 0)
    ops = OpTable(
        names, column(3, 2, 1), column(5 * MS, 2 * MS, MS), column(MS, 2 * MS, MS),
        device, device, column(7, 8, 9),
    )  # fmt: skip
    tables = (kernels, (), (), ()) if gpu else (none, (), (), ())
    return TraceAnalysis(empty_trace(), (activity,) if gpu else (), ops, *tables)


class Host(App):
    def __init__(self, analysis, note="window at step 40"):
        super().__init__()
        self.given, self.opened = (analysis, note), []

    def compose(self):
        yield OpsView()

    def on_mount(self):
        self.view = self.query_one(OpsView)
        self.view.show(*self.given)
        self.view.focus()

    def on_ops_view_operator_opened(self, event):
        self.opened.append(event.row)

    def text(self, selector):
        return str(self.query_one(selector, Static).render())

    def lines(self):
        table = self.query_one(VirtualTable)
        return [table.render_line(y).text.rstrip() for y in range(table.size.height)]


@pytest.fixture
async def host():
    app = Host(analysis_of())
    async with app.run_test(size=(120, 20)) as pilot:
        await pilot.pause()
        app.pilot = pilot
        yield app


async def test_gpu_time_first_where_there_is_a_gpu(host):
    assert "self GPU ▼" in host.lines()[0]
    assert words(host.lines()[1]) == ("aten::mm 3 1.00 ms 5.00 ms 6.00 ms 6.00 ms 66.7 % █████▍")


async def test_the_mark_of_the_order_is_beside_every_title(host):
    for _ in range(7):
        header = host.lines()[0]
        assert header.count("▼") + header.count("▲") == 1
        assert "…" not in header
        await host.pilot.press("greater_than_sign")


async def test_sums_agree_with_the_whole(host):
    assert words(host.lines()[-1]) == "3 ops 6 4.00 ms 9.00 ms 100 % ████████"
    assert "+ 1.00 ms of GPU time launched by no operator" in host.text("#ops-title")


async def test_cpu_time_first_where_there_is_none():
    app = Host(analysis_of(gpu=False))
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.pause()
        assert "self CPU ▼" in app.lines()[0]
        assert "GPU" not in app.lines()[0]
        await pilot.press("k")
        assert "no GPU activity" in app.lines()[1]


async def test_k_changes_to_kernels_and_back(host):
    await host.pilot.press("k")
    assert host.lines()[1].split()[:4] == ["gemm", "kernel", "3", "9.00"]
    assert host.text("#ops-title").startswith("Ops [Kernels]")
    await host.pilot.press("k")
    assert host.lines()[1].startswith("aten::mm")


async def test_it_says_which_window_it_shows(host):
    assert "window at step 40" in host.text("#ops-title")


async def test_enter_opens_the_longest_call(host):
    await host.pilot.press("down", "enter", "k", "enter")
    assert host.opened == [8, 70]


async def test_a_filter_without_hits_names_no_row(host):
    assert "aten::mm" in host.text("#ops-detail")
    await host.pilot.press("slash", *"nothing")
    await host.pilot.pause()
    assert host.text("#ops-detail") == ""


async def test_the_filter_works_as_you_type(host):
    await host.pilot.press("slash", "a", "d", "d")
    assert [line.split()[0] for line in host.lines()[1:-1] if line] == ["aten::add"]
    await host.pilot.press("enter", "enter")
    assert host.opened == [8]
    await host.pilot.press("escape")
    assert len([line for line in host.lines()[1:-1] if line]) == 3
    assert host.query_one(Input).value == ""
    assert not host.query_one(Input).display


async def test_names_are_shown_whole_and_harmless(host):
    await host.pilot.press("end")
    assert host.text("#ops-detail") == "evil\\x1b[31m[bold]op"
    assert all("\x1b" not in line for line in host.lines())


async def test_without_a_trace_it_says_how_to_get_one():
    app = Host(None, note="")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "press c" in app.lines()[1]
        await pilot.press("k", "down", "enter", "slash", "x", "escape")
        assert app.opened == []


async def test_a_new_window_keeps_the_place(host):
    await host.pilot.press("down")
    host.view.show(analysis_of(), "window at step 90")
    await host.pilot.pause()
    assert host.query_one(VirtualTable).selected_name == "aten::add"


@pytest.mark.parametrize("width", [40, 80, 120, 200])
async def test_the_name_and_the_share_stay_at_every_width(width):
    app = Host(analysis_of())
    async with app.run_test(size=(width, 24)) as pilot:
        await pilot.pause()
        assert "aten::mm" in app.lines()[1]
        assert "66.7 %" in app.lines()[1] or width < 60


async def test_ascii_marks(monkeypatch):
    monkeypatch.setattr(RowView, "ascii_only", True)
    app = Host(analysis_of(names=("aten::mm" * 30, "aten::add", HOSTILE)))
    async with app.run_test(size=(120, 20)) as pilot:
        await pilot.pause()
        assert all(line.isascii() for line in app.lines())
