"""The Memory screen: by step, by the processes, and by who holds it."""

import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.memory_categories import Category, MemoryOverTime
from perftui.facts.gpu.cards import MemoryUse, gpu_memory
from perftui.run.columns import EVENT_COLUMNS
from perftui.run.journal import JournalWriter
from perftui.run.layout import RankLayout, RunLayout
from perftui.run.reader import RunSnapshot
from perftui_tui.look.rows import plain, width
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.reading.view import RunView
from perftui_tui.screens.memory.allocations import (
    AT_LEAST,
    BLANK,
    GLYPHS,
    NOT_TOLD,
    category_chart,
    highest_of_bins,
    peak_rows,
    row_of,
    stacked,
)
from perftui_tui.screens.memory.chart import host_rows, memory_chart, memory_now, processes_chart
from tests.core.trace.memory_files import Allocator, snapshot
from tests.facts_given import knowing
from tests.traces.events import cpu, mark, memory, write
from tests.tui.driving import in_ascii, opened, press, text_of, until, until_shown
from tests.tui.recorded import ENDED, NOW, START, write_full_machine, write_run

GIB = 1 << 30


def three_lines() -> bytes:
    """A snapshot in which line 12 holds most."""
    allocator = Allocator()
    allocator.alloc(3 * GIB, 12)
    allocator.alloc(1 * GIB, 30)
    allocator.free(allocator.alloc(2 * GIB, 44))
    return pickle.dumps(snapshot(allocator))


def use(
    allocated: list[int], reserved: list[int], most: list[int] | None = None, **more: int
) -> MemoryUse:
    steps = np.arange(len(allocated), dtype=np.int64)
    peaks = np.maximum.accumulate(np.array(most or allocated))
    sizes = {"peak_allocated": int(peaks[-1]), "peak_step": 0, "peak_reserved": max(reserved)}
    known = {"retries": 0, "failures": 0, **sizes, **more}
    return MemoryUse(steps, np.array(allocated), np.array(reserved), peaks, **known)


def shown(memory: MemoryUse | None) -> Snapshot:
    return knowing({gpu_memory: memory}, Phase.ENDED)


def test_the_top_is_the_peak_and_parts_differ_without_colour() -> None:
    memory = use([GIB, GIB], [4 * GIB] * 2, most=[2 * GIB, 3 * GIB])
    rows = [plain(line)[10:] for line in memory_chart(shown(memory), 12, 6)]
    assert rows[:4] == ["░░", "░▒", "▒▒", "██"]
    assert "▒ peak so far" in plain(memory_chart(shown(memory), 60, 6)[-1])
    rows = [plain(line) for line in memory_chart(shown(use([GIB, 2 * GIB], [4 * GIB] * 2)), 40, 10)]
    assert rows[0].startswith(" 4.00 GiB┤")
    assert rows[7].startswith("        0┤█")
    assert rows[8].strip() == f"step 0{'1':>{40 - 10 - 6}}"
    assert "allocated" in rows[9]


def test_trouble_is_said_and_so_is_what_was_not_counted() -> None:
    counted = plain(memory_now(shown(use([1], [1], retries=3, failures=1)), 120, 2)[1])
    assert counted == "3 retries   1 failure"
    unknown = MemoryUse(*(np.ones(1, np.int64),) * 4, 1, -1, 1, None, None)
    assert "not counted" in plain(memory_now(shown(unknown), 120, 2)[1])


async def test_a_run_on_the_gpu(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path, gpu=True)) as (_, pilot):
        await press(pilot, "7", until="the same at each step")
        await until_shown(pilot, "peak 31.0 GiB", "GPU 0: 31.0 GiB of 141 GiB", "--memory-snapshot")


async def test_without_a_gpu_it_is_the_processes(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (_, pilot):
        await press(pilot, "7", until="No GPU memory was recorded")
        await until_shown(pilot, "now 8.48 GiB:", "main 7.73 GiB", "workers 763 MiB")


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 50)])
async def test_what_records_more_is_said_to_the_end(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(write_run(tmp_path), size) as (app, pilot):
        await press(pilot, "7", until="What memory is for (activations")
        await until(pilot, lambda: "No snapshot" not in text_of(app), "words about the CPU alone")
        view = app.screen.query_one("#allocations")
        # Before it is laid out it has no rows that could be scrolled to.
        await until(pilot, lambda: len(view.rows) == view.content_size.height, "all of its words")
        assert view.max_scroll_y == 0


async def test_before_the_first_step(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path, steps=0)) as (_, pilot):
        await press(pilot, "7", until="No step yet")


def keep_peak(root: Path) -> RankLayout:
    """Keep a snapshot of that name in a run."""
    rank = RunLayout(root).rank(0)
    rank.memory.mkdir()
    (rank.memory / "peak.pickle").write_bytes(three_lines())
    return rank


async def test_a_snapshot_in_the_run_is_shown(tmp_path: Path) -> None:
    root = write_run(tmp_path, gpu=True, **ENDED)
    keep_peak(root)
    async with opened(root) as (_, pilot):
        await press(pilot, "7", until="Allocations by call site (peak.pickle)")
        await until_shown(pilot, "model.py:12")


@pytest.mark.slow
async def test_one_that_is_taken_while_it_runs_is_shown_too(tmp_path: Path) -> None:
    root = write_run(tmp_path, gpu=True)
    async with opened(root) as (_, pilot):
        await press(pilot, "7", until="Which lines hold memory: perftui")
        rank = keep_peak(root)
        await until_shown(pilot, "model.py:12")
        (rank.memory / "out-of-memory.pickle").write_bytes(b"\x80\x04]")
        await until_shown(pilot, "the memory snapshot out-of-memory.pickle cannot be read")
        await press(pilot, "1", until="out-of-memory.pickle cannot be read")


@pytest.mark.slow
async def test_a_played_run_has_no_snapshot_before_it_was_taken(tmp_path: Path) -> None:
    root = write_run(tmp_path, gpu=True, **ENDED)
    rank = keep_peak(root)
    when = START + 30 * 10**9
    events = JournalWriter(rank.events, EVENT_COLUMNS)
    data = {"file": "memory/peak.pickle", "reason": "peak"}
    events.append([[when, "memory_snapshot", 0, 60, data]])
    events.close()
    async with opened(root, replay=True) as (app, pilot):
        await press(pilot, "7", until="model.py:12")
        await pilot.press("P")
        app.playback.seek(when - 1)
        await until_shown(pilot, "Which lines hold memory: perftui")
        app.playback.seek(when)
        await until_shown(pilot, "model.py:12")


@pytest.mark.keys(
    "memory.scroll_sites(1)", "memory.scroll_sites(-1)",
    "memory.scroll_sites(8)", "memory.scroll_sites(-8)",
)  # fmt: skip
async def test_a_file_opens_on_this_screen_and_scrolls(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(three_lines())
    async with opened(path, (80, 24), replay=True) as (app, pilot):
        await until(pilot, lambda: app.current_mode == "memory", "the memory")
        await until_shown(pilot, "3.00 GiB")
        await until_shown(pilot, "GPU 0  6.00 GiB reserved   4.00 GiB allocated")
        assert memory_now(app.snapshot, 80, 2) == []
        view = app.screen.query_one("#allocations")
        rows = view.virtual_size.height - view.size.height
        assert (rows > 0) == (view.max_scroll_y > 0)
        await until(pilot, lambda: view.max_scroll_y > 1, "more rows than are shown")
        await pilot.press("down")
        assert view.scroll_offset.y == 1
        await pilot.press("pagedown")
        assert view.scroll_offset.y == min(9, view.max_scroll_y)
        await pilot.press("pageup", "up")
        assert view.scroll_offset.y == 0
        await press(pilot, "1", until="GPU 0 holds")
        await press(pilot, "3", until="7 shows allocations by call site")


MIB = 1 << 20
SIZES = ((80, 24), (120, 40), (200, 50))

PARTS = st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=20).map(
    lambda columns: np.array(columns, np.int64).T
)


@given(PARTS, st.integers(1, 12), st.integers(0, 40))
def test_a_cell_has_the_part_that_its_middle_lies_in(parts: Any, height: int, spare: int) -> None:
    top = max(int(parts.sum(axis=0).max()) + spare, 1)
    cells = stacked(parts, height, top)
    for column, sizes in enumerate(parts.T.tolist()):
        drawn = cells[::-1, column].tolist()
        for row, found in enumerate(drawn):
            middle = (row + 0.5) * top / height
            below = np.cumsum(sizes).tolist()
            wanted = next((part for part, sum_ in enumerate(below) if sum_ > middle), BLANK)
            if row == 0 and wanted == BLANK and sum(sizes):
                wanted = sizes.index(max(sizes))
            assert found == wanted


@given(PARTS, st.integers(1, 30), st.booleans())
def test_columns_of_samples_keep_the_highest(parts: Any, columns: int, live: bool) -> None:
    shown = highest_of_bins(parts, columns, live)
    assert shown.shape[1] <= columns
    assert shown.sum(axis=0).max() == parts.sum(axis=0).max()
    assert all(column in parts.T.tolist() for column in shown.T.tolist())


def test_a_height_ends_in_a_row() -> None:
    assert [row_of(value, 4, 8.0) for value in (0, 1, 2, 3, 8, 9)] == [3, 3, 3, 2, 0, 0]


def use_of(absolute: bool = True, only_other: bool = False, **more: Any) -> MemoryOverTime:
    """Held before, then activations, then gradients in their place; the peak in the middle."""
    parts = np.zeros((len(Category), 4), np.int64)
    parts[Category.BEFORE] = 4 * GIB
    parts[Category.OTHER if only_other else Category.ACTIVATIONS] = [0, 3 * GIB, 3 * GIB, 0]
    parts[Category.GRADIENTS] = 0 if only_other else np.array([0, 0, GIB, GIB])
    if only_other:
        parts[Category.OTHER, 2] = 4 * GIB
    blocks = [0] * len(Category)
    blocks[Category.ACTIVATIONS], blocks[Category.GRADIENTS] = 7, 1
    time = np.array([0, 1, 2, 4], np.int64) * 1_000_000
    return MemoryOverTime(0, time, parts, tuple(blocks), absolute=absolute, **more)


def showing(*curves: MemoryOverTime) -> Snapshot:
    return replace(knowing({}, Phase.TRACE), history=curves)


def drawn(
    memory_: MemoryOverTime, cells: int = 80, height: int = 12, legend: bool = True
) -> list[str]:
    rows = category_chart(showing(memory_), cells, height, legend=legend)
    assert all(width(row) <= cells for row in rows)
    return [plain(row) for row in rows]


def test_the_chart_is_as_wide_as_the_pane_and_names_the_peak() -> None:
    rows = drawn(use_of(reserved=np.array([12 * GIB] * 4)))
    assert len(rows) == 12
    assert rows[0] == " 12.0 GiB┤" + "─" * 70
    before, activations, gradients = (
        GLYPHS[each][0] for each in (Category.BEFORE, Category.ACTIVATIONS, Category.GRADIENTS)
    )
    assert rows[8].endswith(before * 70)
    middle = "".join(row[10 + 40] for row in rows[:9])
    assert middle == f"─  {activations * 2}{gradients}{before * 3}"
    assert "▲ peak 8.00 GiB at 2.00 ms" in rows[9]
    assert rows[9].index("▲") == 10 + 34
    assert rows[9].endswith("4.00 ms")
    assert "░░ held before the recording 4.00 GiB 50 %" in rows[10]
    assert "▒▒ gradients 1.00 GiB 12 %" in rows[10] + rows[11]
    assert "▞▞ activations 3.00 GiB 38 %" in rows[11]


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("cells", [24, 40, 60, 80])
def test_the_peak_is_marked_wherever_it_is(at: int, cells: int) -> None:
    memory_ = use_of()
    memory_.parts[Category.TEMPORARY, at] = 9 * GIB
    (row,) = (one for one in drawn(memory_, cells, legend=False) if "▲" in one)
    columns = cells - 10
    place = (0, columns // 4, columns // 2, columns - 1)[at]
    # A moment on the edge of two columns is in both, and the first has the mark.
    assert row.index("▲") - 10 in (place - 1, place)
    assert len(row) == cells
    assert "▲ peak" in row or row.rstrip().endswith("▲") or cells <= 40


def test_categories_differ_without_colour_and_in_ascii() -> None:
    glyphs = [glyph for glyph, _ in GLYPHS.values()]
    assert len(set(glyphs)) == len({style for _, style in GLYPHS.values()}) == len(Category)
    assert len(set(in_ascii(*glyphs))) == len(Category)


def test_the_table_sums_to_what_is_held() -> None:
    shown = showing(use_of(reserved=np.array([9 * GIB] * 4)))
    rows = [plain(row) for row in peak_rows(shown, 60, 20)]
    cells = [re.split(r"  +", row.strip()) for row in rows[1:]]
    assert cells == [
        ["░░ held before the recording", "4.00 GiB", "50.0 %", "–", "██"],
        ["▒▒ gradients", "1.00 GiB", "12.5 %", "1", "▌"],
        ["▞▞ activations", "3.00 GiB", "37.5 %", "7", "█▌"],
        ["total", "8.00 GiB 100.0 %"],
        ["── reserved at the peak", "9.00 GiB"],
    ]


def test_what_is_not_known_is_said() -> None:
    shown = showing(use_of(absolute=False, only_other=True))
    text = " ".join(plain(row).strip() for row in peak_rows(shown, 60, 20))
    assert NOT_TOLD in text
    assert AT_LEAST in text
    known = showing(use_of())
    text = " ".join(plain(row).strip() for row in peak_rows(known, 60, 20))
    assert NOT_TOLD not in text
    assert AT_LEAST not in text


def training_events(device: int = 0) -> list[dict[str, Any]]:
    """Two steps of 100 us that make 3 GiB of activations and 1 GiB of gradients each."""
    node = "autograd::engine::evaluate_function: AddmmBackward0"
    events: list[dict[str, Any]] = []
    for number, at in enumerate((0, 100)):
        address, held = 100 * number, 4 * GIB
        events += [
            mark("ProfilerStep#" + str(number), at, 99),
            cpu("aten::linear", at, 29),
            cpu(node, at + 30, 25, tid=2),
            mark("Optimizer.step#Adam.step", at + 60, 30),
            cpu("aten::addcdiv_", at + 61, 5),
            memory(at + 1, 3 * GIB, held + 3 * GIB, device, Addr=address + 1),
            memory(at + 31, GIB, held + 4 * GIB, device, 2, Addr=address + 2),
            memory(at + 50, -3 * GIB, held + GIB, device, 2, Addr=address + 1),
            memory(at + 98, -GIB, held, device, Addr=address + 2),
        ]
    return events


def gpu_run(tmp_path: Path) -> Path:
    root = write_full_machine(tmp_path, cards=1)
    file = RunLayout(root).rank(0).window(100)
    file.parent.mkdir(exist_ok=True)
    write(file, training_events())
    return root


def cpu_run(tmp_path: Path) -> Path:
    return write_full_machine(tmp_path, cards=0)


def trace(tmp_path: Path) -> Path:
    return write(tmp_path / "trace.json", training_events())


def lone_snapshot(tmp_path: Path) -> Path:
    allocator = Allocator()
    kept = [allocator.alloc((1 + number) * MIB, 12 + number) for number in range(24)]
    for address in kept[::2]:
        allocator.free(address)
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot(allocator)))
    return path


WORDS: dict[Callable[[Path], Path], tuple[str, ...]] = {
    gpu_run: (
        "GPU 0 memory by category",
        "held before the recording",
        "activations",
        "gradients",
        "▲ peak",
        "page cache",
    ),
    cpu_run: ("Host memory", "main", "workers", "20.0 GiB", "40.0 GiB", "--memory train.py"),
    trace: ("GPU 0 memory by category", "activations", "peak 8.00 GiB"),
    lone_snapshot: ("GPU 0 memory by category", "activations", "Held at the end, by line"),
}


TALL = ("page cache", "40.0 GiB")
"""Said where there is room."""


def empty_rows(text: str) -> float:
    """The share of rows with nothing but blanks and frames."""
    rows = text.split("\n")
    return sum(not re.sub(r"[│╭╮╰╯─┤ ]", "", row) for row in rows) / len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("made", WORDS, ids=lambda made: made.__name__)
async def test_the_screen_is_filled_at_each_size(
    tmp_path: Path, made: Callable[[Path], Path], size: tuple[int, int]
) -> None:
    async with opened(made(tmp_path), size, replay=True) as (app, pilot):
        await pilot.press("7")
        for words in WORDS[made]:
            if size == (80, 24) and words in TALL:
                continue
            await until_shown(pilot, words)
        await until(pilot, lambda: empty_rows(text_of(app)) <= 1 / 3, "a full screen")
        chart = "#memory-chart" if made is cpu_run else "#memory-categories"
        pane = app.screen.query_one(chart)
        await until(pilot, lambda: pane.region.height >= 7, "room for the chart")
        beside = size == (200, 50) and made is not cpu_run
        assert pane.region.width == (size[0] * 3 // 5 if beside else size[0])
        assert pane.region.bottom < size[1]


async def test_a_gpu_run_keeps_its_steps_and_a_short_screen_has_the_host_in_one_row(
    tmp_path: Path,
) -> None:
    async with opened(gpu_run(tmp_path), replay=True) as (_, pilot):
        await press(pilot, "7", until="the same at each step")
        await until_shown(pilot, "peak 31.0 GiB", "over the last profiled window", "page cache")
        await pilot.resize_terminal(80, 24)
        await until_shown(pilot, "By step ▅▅▅", " 0 to 31.0 GiB")
        await until_shown(pilot, "Host    all (RSS) 61.0 GiB   shared once (PSS) 44.0 GiB")


async def test_the_chart_opens_by_category_too(tmp_path: Path) -> None:
    async with opened(trace(tmp_path), replay=True) as (app, pilot):
        await press(pilot, "7", until="▲ peak")
        await press(pilot, "C", until="GPU 0 memory by category over the trace")
        await pilot.press("escape")
        await pilot.click("#memory-categories")
        await until_shown(pilot, "GPU 0 memory by category over the trace")
        assert app.screen.query("#chart-plot")


def test_the_size_of_what_can_run_out_stands_under_capacity(tmp_path: Path) -> None:
    snapshot = RunView(write_run(tmp_path), lambda: NOW, lambda: False).read()
    head, *rows = (plain(line) for line in host_rows(snapshot, 100, 10))
    assert head.split() == ["now", "highest", "capacity"]
    machine = next(line for line in rows if line.startswith("machine in use"))
    end = head.index("capacity") + len("capacity")
    assert machine[:end].endswith("64.0 GiB")


def test_processes_that_hold_nothing_or_everything_are_not_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = np.array([2.0, 3.0]) * GIB
    sizes = {"ranks_rss": held, "rss": held, "workers_rss": 0 * held, "rest_rss": 0 * held}
    table = {f"processes.{name}": samples for name, samples in sizes.items()}
    monkeypatch.setattr("perftui_tui.screens.memory.chart.table_of", lambda _: table)
    alone = replace(shown(None), run=cast("RunSnapshot", object()))
    assert [plain(line).split()[0] for line in host_rows(alone, 100, 10)] == ["now", "all"]
    assert plain(processes_chart(alone, 60, 6)[-1]) == "highest 3.00 GiB: ██ main 3.00 GiB"
