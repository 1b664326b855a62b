"""The Ops screen: tables, groups, tree, pages, and what leaves it."""

import csv
import io
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import App
from textual.widgets import Input, Static

from perftui.analysis.ops.call_groups import By
from perftui.trace.ncu import load_ncu
from perftui_tui.actions import clipboard as copying
from perftui_tui.look.themes import DEFAULT_THEME, THEMES
from perftui_tui.screens.ops.detail import OpsDetail
from perftui_tui.screens.ops.screen import OpsView
from perftui_tui.tables.rows import save_new
from perftui_tui.tables.virtual import VirtualTable
from tests.traces.builder import TraceBuilder, us
from tests.tui.driving import in_ascii, opened, press, text_of, until
from tests.tui.traces import ADD, GEMM, HOSTILE, op_analysis, write_op_trace, write_trace

NCU = (
    '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value","Section Name"\n'
    f'"0","{GEMM}","Duration","nsecond","1000","GPU Speed Of Light Throughput"\n'
    f'"0","{GEMM}","Compute (SM) Throughput","%","81.5","GPU Speed Of Light Throughput"\n'
    f'"0","{GEMM}","Memory Throughput","%","20.0","GPU Speed Of Light Throughput"\n'
    f'"0","{GEMM}","Achieved Occupancy","%","43.0","Occupancy"\n'
)


def words(line):
    return " ".join(line.split())


class Host(App):
    def __init__(self, analysis, note, metrics):
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DEFAULT_THEME
        self.given, self.opened, self.saved = (analysis, note, metrics), [], []

    def compose(self):
        yield OpsView()

    def on_mount(self):
        self.view = self.query_one(OpsView)
        self.view.show(*self.given)
        self.view.focus()

    def on_ops_detail_row_chosen(self, event):
        self.opened.append(event.row)

    def on_ops_view_save_wanted(self, event):
        self.saved.append(event)

    def said(self, selector):
        return str(self.query_one(selector, Static).render())

    @property
    def table(self):
        return self.query_one(VirtualTable)

    def lines(self):
        return [self.table.render_line(y).text.rstrip() for y in range(self.table.size.height)]

    def names(self):
        order = self.table.order.tolist()
        return [self.table.data.names[row] for row in order]

    def figures(self, title):
        column = next(c for c in self.table.data.columns if c.title == title)
        return {name: column.text(row) for row, name in enumerate(self.table.data.names)}

    def page(self):
        return self.query_one(OpsDetail).text

    async def reach(self, condition):
        for _ in range(600):
            if condition():
                return
            await self.pilot.pause(0.05)
        raise AssertionError("\n".join([self.said("#ops-title"), *self.lines(), self.page()]))

    async def reach_page(self, text):
        await self.reach(lambda: text in self.page())


@pytest.fixture
def analysis():
    return op_analysis()


@asynccontextmanager
async def showing(analysis, size=(120, 24), *, note="window at step 40", metrics=None, **how):
    app = Host(analysis, note, metrics)
    async with app.run_test(size=size, **how) as app.pilot:
        await app.pilot.pause()
        yield app


@pytest.fixture
async def host(analysis):
    async with showing(analysis, (120, 30)) as app:
        yield app


# The table


async def test_operators_by_gpu_time_with_bars_sums_and_the_window(host):
    assert "own GPU ▼" in host.lines()[0]
    assert words(host.lines()[1]).startswith(
        "aten::addmm 2 800 µs 800 µs 1.44 ms 1.44 ms 0 % 96.6 %"
    )
    assert "window at step 40" in host.said("#ops-title")
    assert words(host.lines()[-1]) == "4 ops 6 1.31 ms 1.49 ms 0 % 100 %"
    rest = host.said("#ops-rest")
    assert rest.startswith("+ 10.0 µs of GPU time not launched by these   tensor: ")
    first, second = host.lines()[1:3]
    end = first.rindex("%") + 1
    assert second.rindex("%") + 1 == end == host.lines()[-1].rindex("%") + 1
    assert first[end + 1] == "█"
    assert "█" not in host.lines()[-1]
    colours = {
        segment.style.color
        for y in (1, 2)
        for segment in host.table.render_line(y)
        if set(segment.text.strip()) & set("█▏▎▍▌▋▊▉")
    }
    assert len(colours) == 1
    await host.reach(lambda: "tensor" in host.lines()[0])
    shares = host.figures("tensor")
    # A product on the ordinary units, work that is none, and what launched nothing.
    assert shares == {"aten::addmm": "0 %", "aten::add": "–", "aten::linear": "–", HOSTILE: "–"}
    assert "tensor: inferred from kernel names" in host.said("#ops-rest")
    await host.pilot.press("end")
    assert host.said("#ops-detail") == "evil\\x1b[31m[bold]op"
    assert all("\x1b" not in line for line in host.lines())


async def test_cpu_time_first_where_there_is_none(tmp_path):
    from perftui.analysis.analyse import analyse
    from perftui.trace.formats import load_trace

    async with showing(analyse(load_trace(write_trace(tmp_path, gpu=False))), (100, 20)) as app:
        assert "own CPU ▼" in app.lines()[0]
        assert "GPU" not in app.lines()[0]
        assert app.view.useless == {"kernels", "roofline"}
        await app.pilot.press("k")
        assert "no GPU activity" in app.lines()[1]
        assert {"save", "open"} < app.view.useless
        await app.pilot.press("t")
        assert ["no GPU activity" in one.message for one in app._notifications] == [True]


async def test_a_click_on_a_title_sorts_and_the_mark_is_beside_every_title(host):
    x = host.lines()[0].index("calls")
    await host.pilot.click(VirtualTable, offset=(x, 0))
    assert "calls ▼" in host.lines()[0]
    await host.pilot.click(VirtualTable, offset=(host.lines()[0].index("share") + 15, 0))
    assert "share ▼" in host.lines()[0]
    for _ in range(7):
        header = host.lines()[0]
        assert header.count("▼") + header.count("▲") == 1
        assert "…" not in header
        await host.pilot.press("greater_than_sign")


@pytest.mark.keys("ops.filter", "ops.back")
async def test_the_filter_works_as_you_type_and_counts(host):
    assert "aten::addmm" in host.said("#ops-detail")
    await host.pilot.press("slash", *"nothing")
    await host.pilot.pause()
    assert host.said("#ops-detail") == ""
    await host.pilot.press("escape")
    await host.pilot.press("slash", *"add")
    assert host.names() == ["aten::addmm", "aten::add"]
    assert "2 of 4 match" in host.said("#ops-title")
    assert host.lines()[-1].startswith("2 of 4 ops")
    await host.pilot.press("enter", "down", "escape")
    assert len(host.names()) == 4
    await host.pilot.resize_terminal(72, 30)
    await host.pilot.press("slash", *"add")
    assert host.said("#ops-title").endswith("2 of 4 match")
    await host.pilot.press("escape")
    assert host.query_one(Input).value == ""
    assert not host.query_one(Input).display


@pytest.mark.slow
@pytest.mark.parametrize("needle", ["elementwise add", "native::vectorized"])
async def test_kernels_read_short_and_are_found_by_both_names(host, needle):
    await host.pilot.press("k", "slash", *needle, "enter")
    await host.pilot.pause()
    assert host.names() == [ADD]
    assert host.lines()[1].startswith("elementwise add<float> ")
    assert host.said("#ops-detail") == ADD


@pytest.mark.slow
async def test_without_a_trace_it_says_how_to_get_one():
    async with showing(None, (80, 24), note="") as app:
        assert "press c" in app.lines()[1]
        keys = "down", "right", "left", "enter", "slash", "x", "escape"
        await app.pilot.press(*"kgvEtosyY", *keys)
        assert app.opened == app.saved == []


async def test_a_new_window_keeps_the_place_and_the_order(host):
    await host.pilot.press("less_than_sign", "down")
    selected = host.table.selected_name
    host.view.show(op_analysis(), "window at step 90")
    await host.pilot.pause()
    assert host.table.selected_name == selected
    assert "total CPU ▼" in host.lines()[0]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
async def test_the_name_and_the_share_stay_at_every_width(analysis, width):
    async with showing(analysis, (width, 24)) as app:
        assert "aten::addmm" in app.lines()[1]
        assert "96.6 %" in app.lines()[1] or width < 60


async def test_ascii_marks(analysis):
    async with showing(analysis) as app:
        await app.pilot.press("v")
        await app.reach(lambda: "call" in app.lines()[0])
        await app.pilot.press("E")
        assert any(line.startswith("- ") for line in in_ascii(*app.lines()))


# Groups


@pytest.mark.keys("ops.group(1)", "ops.group(-1)")
async def test_g_tells_operators_apart_by_shapes_module_and_line(host):
    await host.pilot.press("g")
    await host.reach(lambda: len(host.names()) == 6)
    assert "aten::addmm  [32] [64,128] [128,32]" in host.names()
    assert "by name [shapes] module line" in host.said("#ops-title")
    assert words(host.lines()[-1]).startswith("6 groups 6 1.31 ms 1.49 ms 0 % 100 %")

    await host.pilot.press("g")
    await host.reach(lambda: "module" in host.lines()[0])
    assert host.figures("own CPU") == {"Linear_0": "1.40 ms", "(in no module)": "110 µs"}

    await host.pilot.press("g")
    await host.reach(lambda: host.lines()[0].startswith("function at"))
    assert host.figures("own CPU") == {
        "train.py:12 step": "1.20 ms",
        "(no line of yours)": "110 µs",
    }
    await host.pilot.press("G", "G", "G")
    assert host.view.by is By.NAME


async def test_a_trace_that_is_gone_is_said(analysis):
    Path(analysis.trace.path).unlink()
    async with showing(analysis, notifications=True) as app:
        await app.pilot.press("g")
        await app.reach(lambda: "cannot read" in app.lines()[1])
        await app.pilot.press("G", "k")
        await app.reach(lambda: GEMM in app.lines()[1])
        await app.pilot.press("enter")
        await app.reach_page("launches cannot be read: cannot read")


async def test_arguments_of_too_many_rows_are_not_called_missing(analysis, monkeypatch):
    monkeypatch.setattr("perftui.trace.kineto.arguments.MOST_SINGLE", 1)
    one_by_one = replace(analysis.trace, read_arguments=lambda _row: {})
    async with showing(replace(analysis, trace=one_by_one)) as app:
        await app.pilot.press("enter")
        await app.reach_page("input shapes cannot be read: too many rows to read one by one")
        await app.pilot.press("backspace", "k", "enter")
        await app.reach_page("launches cannot be read: too many rows to read one by one")
        assert "the trace does not say" not in app.page()
        await app.pilot.press("backspace", "k", "g")
        await app.reach(lambda: "too many rows" in app.lines()[1])


# The tree


async def in_tree(host):
    await host.pilot.press("v")
    await host.reach(lambda: host.lines()[0].startswith("call"))


@pytest.mark.keys("ops.table.branch(1)", "ops.table.branch(-1)", "ops.tree")
async def test_the_tree_unfolds_adds_up_and_is_saved_and_sorted(host):
    await in_tree(host)
    assert set(host.names()) == {"aten::linear", "aten::add", HOSTILE}
    assert host.lines()[1].startswith("▸ aten::linear")
    await host.pilot.press("right")
    assert host.lines()[1].startswith("▾ aten::linear")
    assert words(host.lines()[2]).startswith("aten::addmm 2 800 µs 800 µs 1.44 ms 1.44 ms")
    await host.pilot.press("right")
    assert host.table.selected_name == "aten::addmm"
    await host.pilot.press("left")
    assert host.table.selected_name == "aten::linear"
    await host.pilot.press("left")
    assert "aten::addmm" not in host.names()
    await host.pilot.press("enter")
    assert "aten::addmm" in host.names()
    await host.pilot.press("enter")
    assert "aten::addmm" not in host.names()
    before = words(host.lines()[-1])
    await host.pilot.press("right")
    assert words(host.lines()[-1]) == before.replace("3 paths", "4 paths")
    assert before == "3 paths shown 1.31 ms 1.49 ms 100 %"
    await host.pilot.press("s")
    assert [line.split(",")[0] for line in host.saved[0].text.splitlines()[:3]] == [
        "call",
        "aten::linear",
        " aten::addmm",
    ]
    await host.pilot.press("home", "R")
    assert host.names()[-2:] == ["aten::linear", "aten::addmm"]


@pytest.mark.keys("ops.heaviest")
async def test_the_heaviest_path_opens(host):
    await host.pilot.press("g", "g", "g")
    await host.reach(lambda: host.lines()[0].startswith("function at"))
    await in_tree(host)
    await host.pilot.press("E")
    assert [line.split()[1] for line in host.lines()[1:3]] == ["train.py:12", "aten::linear"]
    assert host.table.selected_name == "aten::addmm"


async def test_modules_stand_between_operators(host):
    await host.pilot.press("g", "g")
    await in_tree(host)
    await host.pilot.press("E")
    assert host.names()[:3] == ["Linear_0", "aten::linear", "aten::addmm"]


async def test_a_filter_of_the_tree_shows_the_way(host):
    await in_tree(host)
    await host.pilot.press("slash", *"addmm")
    assert host.names() == ["aten::linear", "aten::addmm"]
    assert host.lines()[-1].startswith("1 match")
    await host.pilot.press("backspace", "backspace", "backspace", "backspace", "x", "y")
    assert "no call's name contains 'axy'" in host.lines()[1]
    await host.pilot.press("escape")
    assert len(host.names()) == 3


# Kernels


@pytest.mark.keys("ops.kernels")
async def test_k_changes_to_kernels_and_back(host):
    await host.pilot.press("k")
    await host.reach(lambda: "est. occ" in host.lines()[0])
    assert words(host.lines()[1]).startswith(f"{GEMM} 2 1.44 ms 160 µs 1.28 ms no")
    assert host.figures("tensor") == {GEMM: "no", ADD: "–"}
    assert host.figures("est. occ")[GEMM] == f"{(1280 * 64 + 160 * 8) / 1440:.0f} %"
    assert host.figures("est. occ")[ADD] == "–"
    assert host.figures("stream")[GEMM] == "0:7"
    assert host.said("#ops-title").startswith("Ops [Kernels]")
    await host.pilot.press("k")
    assert host.lines()[1].startswith("aten::addmm")


async def test_what_ncu_measured_joins_the_kernels(analysis, tmp_path):
    report = tmp_path / "kernels.csv"
    report.write_text(NCU)
    async with showing(analysis, (200, 24), metrics=load_ncu(report)) as app:
        await app.pilot.press("k")
        await app.pilot.pause()
        assert app.figures("compute") == {GEMM: "82 %", ADD: "–"}
        assert app.figures("memory") == {GEMM: "20 %", ADD: "–"}
        assert app.figures("limit") == {GEMM: "compute", ADD: "–"}
        assert app.figures("occupancy") == {GEMM: "43 %", ADD: "–"}


# A row opened


@pytest.mark.keys(
    "ops.table.open", "ops.detail.move(1)", "ops.detail.move(-1)", "ops.detail.edge(1)",
    "ops.detail.edge(-1)", "ops.detail.page(1)", "ops.detail.page(-1)",
)  # fmt: skip
async def test_an_operator_opens_to_lines_that_lead_somewhere(host, analysis):
    await host.pilot.press("enter")
    await host.reach_page("input shapes  ")
    page = host.page()
    assert "median 400 µs" in page
    kernel = next(words(line) for line in page.splitlines() if GEMM in line)
    assert kernel == f"{GEMM} 2 1.44 ms 100 % no 58 % 128"
    caller = next(words(line) for line in page.splitlines() if "aten::linear" in line)
    assert "aten::linear 2 800 µs 100 % ████" in caller
    place = next(line for line in page.splitlines() if "train.py:12" in line)
    assert words(place).startswith("train.py:12 step 2 800 µs 100 %")
    assert "[32] [64,128] [128,32]" in page
    assert "longest call" in page
    lines = host.query_one(OpsDetail)

    async def reached(*keys):
        await host.pilot.press(*keys)
        return lines.text.splitlines()[lines.at].split()[0]

    assert await reached("home") == GEMM
    assert await reached("down") == "aten::linear"
    assert await reached("up") == GEMM
    assert await reached("end") == "last"
    assert await reached("pageup") == GEMM
    assert await reached("pagedown") == "last"
    await host.pilot.press("enter")
    row = host.opened[0]
    assert analysis.trace.name_of(row) == "aten::addmm"
    assert int(analysis.trace.start[row]) == 1_100_000
    y = next(y for y, line in enumerate(host.page().splitlines()) if GEMM in line)
    await host.pilot.click("#ops-page", offset=(5, y))
    await host.reach_page("launched by")


async def test_an_opened_kernel_says_how_it_was_launched(host):
    await host.pilot.press("k", "enter")
    await host.reach_page("64  x  128")
    assert "8  x  128" in host.page()
    assert "tensor cores, inferred from its name: no" in host.page()


@pytest.mark.keys("ops.detail.open", "ops.detail.leave")
async def test_the_way_through_pages_and_back(host):
    await host.pilot.press("down", "up", "enter")
    await host.reach_page(GEMM)
    await host.pilot.press("enter")
    await host.reach_page("launched by")
    assert f"aten::addmm > {GEMM}"[:30] in host.said("#ops-title")
    await host.pilot.press("enter")
    await host.reach_page("called by")
    await host.pilot.press("backspace")
    await host.reach_page("launched by")
    await host.pilot.press("escape")
    await host.reach_page("called by")
    await host.pilot.press("backspace")
    await host.pilot.pause()
    assert host.table.display
    assert host.table.selected_name == "aten::addmm"
    assert host.focused is host.table


@pytest.mark.keys("ops.timeline")
async def test_t_shows_the_longest_call_at_once(host, analysis):
    await host.pilot.press("t")
    assert [analysis.trace.name_of(row) for row in host.opened] == ["aten::addmm"]
    await host.pilot.press("k", "t")
    assert analysis.trace.name_of(host.opened[1]) == GEMM
    await host.pilot.press("v")
    await host.reach(lambda: host.lines()[0].startswith("call"))
    await host.pilot.press("home", "t")
    assert analysis.trace.name_of(host.opened[2]) == "aten::linear"


@pytest.mark.keys("ops.open")
async def test_o_opens_a_node_of_the_tree(host):
    await in_tree(host)
    await host.pilot.press("o")
    await host.reach_page("called by")
    assert "aten::linear" in host.page()
    assert "aten::addmm" not in host.page().split("launched")[0]


async def test_what_was_not_recorded_names_the_option():
    async with showing(op_analysis(details=False)) as app:
        await app.pilot.press("enter")
        await app.reach_page("--shapes records them")
        assert "--stacks records them" in app.page()
        await app.pilot.press("k", "enter")
        await app.reach_page("how it was launched was not recorded")
        await app.pilot.press("backspace", "k")
        for option in ("--shapes", "--modules", "--stacks"):
            await app.pilot.press("g")
            await app.reach(lambda option=option: option in app.lines()[1])
        await app.pilot.press("v")
        await app.reach(lambda: "--stacks" in app.lines()[1])


# What leaves it


@pytest.mark.keys("ops.save")
async def test_the_table_as_csv_is_exact_and_whole(host):
    await host.pilot.press("k", "s")
    await host.pilot.press("k", "slash", *"add", "enter", "s")
    kernels, ops = host.saved
    assert (kernels.stem, ops.stem) == ("kernels", "ops-by-name")
    found = list(csv.DictReader(io.StringIO(kernels.text)))
    assert [row["kernel"] for row in found] == [GEMM, ADD]
    assert found[0]["total (ns)"] == "1440000"
    assert float(found[0]["share"]) == 1440 / 1500
    assert [row["op"] for row in csv.DictReader(io.StringIO(ops.text))] == [
        "aten::addmm",
        "aten::add",
    ]


def test_nothing_is_overwritten(tmp_path):
    first = save_new("a", tmp_path, "ops")
    second = save_new("b", tmp_path, "ops")
    assert (first.name, second.name) == ("ops.csv", "ops-2.csv")
    assert (first.read_text(), second.read_text()) == ("a", "b")


@pytest.mark.keys("ops.copy('name')", "ops.copy('table')", "app.return")
async def test_rows_are_saved_and_copied_and_the_timeline_leads_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TMUX", raising=False)
    async with opened(write_op_trace(tmp_path)) as (app, pilot):
        await press(pilot, "3", until="aten::addmm")
        await pilot.press("s")
        await until(pilot, lambda: list(tmp_path.glob("layer-ops-by-name.csv")), "the file")
        await until(pilot, lambda: any("saved" in n.message for n in app._notifications))
        await pilot.press("y")
        kept = tmp_path / "cache" / "copied.txt"
        await until(pilot, lambda: kept.exists() and kept.read_text() == "aten::addmm")
        assert app.clipboard == "aten::addmm"
        assert kept.stat().st_mode & 0o077 == 0
        await pilot.press("Y")
        await until(pilot, lambda: kept.read_text().startswith("op,calls"))
        await press(pilot, "enter", until="on the timeline")
        await pilot.press("y")
        await until(pilot, lambda: "on the timeline" in kept.read_text())
        await press(pilot, "end", "enter", screen="timeline", until="aten::addmm")
        await press(pilot, "backspace", screen="ops")
        assert "on the timeline" in text_of(app)
        await pilot.press("backspace")
        await until(pilot, lambda: app.screen.query_one(VirtualTable).display)


def test_tmux_is_handed_the_text(tmp_path, monkeypatch):
    program = tmp_path / "tmux"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncat > {tmp_path}/given\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("TMUX", "socket,1,0")
    copying.hand_to_tmux("aten::mm")
    assert (tmp_path / "asked").read_text() == "load-buffer -w -\n"
    assert (tmp_path / "given").read_text() == "aten::mm"
    monkeypatch.delenv("TMUX")
    (tmp_path / "given").unlink()
    copying.hand_to_tmux("aten::mm")
    assert not (tmp_path / "given").exists()


def story():
    """Two ranges of a name, one within the other, around a launch; and one more."""
    story = TraceBuilder().range("block", us(100)).at(us(10)).range("block", us(50))
    story.at(us(20)).op("aten::mm", us(30)).at(us(25)).launch(GEMM, us(500), call=us(8))
    story.at(us(200)).range("load", us(30))
    return story.at(us(300)).op("aten::mm", us(30)).at(us(305)).launch(GEMM, us(80), call=us(4))


@pytest.fixture(params=[(80, 24), (120, 40)])
async def sums_host(request):
    async with showing(story().analysis(), request.param) as app:
        yield app


@pytest.mark.keys("ops.sums")
async def test_n_shows_ranges_then_calls_then_operators(sums_host):
    await sums_host.pilot.press("n")
    await sums_host.reach(lambda: sums_host.lines()[0].startswith("range"))
    assert "[Ranges]" in sums_host.said("#ops-title")
    assert words(sums_host.lines()[1]).startswith("block 2 100 µs 75.0 µs")
    assert words(sums_host.lines()[2]).startswith("load 1 30.0 µs 30.0 µs")
    assert sums_host.figures("share") == {"block": "76.9 %", "load": "23.1 %"}
    await sums_host.pilot.press("n")
    await sums_host.reach(lambda: sums_host.lines()[0].startswith("call "))
    assert "[CUDA calls]" in sums_host.said("#ops-title")
    assert words(sums_host.lines()[1]).startswith("cudaLaunchKernel 2 12.0 µs 6.00 µs")
    assert sums_host.figures("min") == {"cudaLaunchKernel": "4.00 µs"}
    assert sums_host.figures("max") == {"cudaLaunchKernel": "8.00 µs"}
    await sums_host.pilot.press("n")
    assert sums_host.lines()[1].startswith("aten::mm")
    assert sums_host.said("#ops-title").startswith("[Ops]")


async def test_from_them_k_leads_to_kernels_and_g_to_operators(sums_host):
    await sums_host.pilot.press("n", "k")
    assert sums_host.lines()[1].startswith(GEMM)
    await sums_host.pilot.press("n", "g")
    assert sums_host.lines()[1].startswith("aten::mm")
    await sums_host.pilot.press("n", "v")
    await sums_host.reach(lambda: "[tree]" in sums_host.said("#ops-title"))


async def test_a_row_leads_to_the_longest_and_all_are_saved(sums_host):
    await sums_host.pilot.press("n")
    await sums_host.reach(lambda: sums_host.lines()[0].startswith("range"))
    await sums_host.pilot.press("enter", "down", "t")
    trace = sums_host.given[0].trace
    assert [trace.name_of(row) for row in sums_host.opened] == ["block", "load"]
    assert trace.duration[sums_host.opened[0]] == us(100)
    await sums_host.pilot.press("slash", *"lo", "enter", "s")
    assert sums_host.names() == ["block", "load"]
    await sums_host.pilot.press("n")
    await sums_host.reach(lambda: "[CUDA calls]" in sums_host.said("#ops-title"))
    ranges = sums_host.saved[0]
    assert ranges.stem == "ranges"
    assert next(csv.DictReader(io.StringIO(ranges.text)))["total (ns)"] == "100000"


async def test_where_there_are_none_it_says_so():
    async with showing(TraceBuilder().op("aten::mm", us(30)).analysis(), (100, 24)) as app:
        await app.pilot.press("n")
        await app.reach(lambda: "no ranges in this trace" in " ".join(app.lines()))
        await app.pilot.press("n")
        await app.reach(lambda: "no calls of the CUDA runtime" in " ".join(app.lines()))
