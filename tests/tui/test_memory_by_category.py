"""The Memory screen's stacked charts, its tables and how they fill it."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.memory import Category, MemoryOverTime
from perftui.run.layout import RunLayout
from perftui_tui.charts.stacked import BLANK, highest_of_bins, row_of, stacked
from perftui_tui.look.rows import plain, width
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.reading.view import RunView
from perftui_tui.screens.memory.allocations import (
    AT_LEAST,
    GLYPHS,
    NOT_TOLD,
    category_chart,
    peak_rows,
)
from perftui_tui.screens.memory.chart import host_rows
from tests.core.trace.memory_files import Allocator, snapshot
from tests.facts_given import knowing
from tests.traces.events import cpu, mark, memory, write
from tests.tui.driving import in_ascii, opened, text_of, until, until_shown
from tests.tui.full_machine import write_full_machine
from tests.tui.recorded import NOW, START, write_run

GIB, MIB = 1 << 30, 1 << 20
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


def use(absolute: bool = True, only_other: bool = False, **more: Any) -> MemoryOverTime:
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
    rows = drawn(use(reserved=np.array([12 * GIB] * 4)))
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
    memory_ = use()
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
    shown = showing(use(reserved=np.array([9 * GIB] * 4)))
    rows = [plain(row) for row in peak_rows(shown, 60, 20)]
    cells = [re.split(r"  +", row.strip()) for row in rows[1:]]
    assert cells == [
        ["░░ held before the recording", "4.00 GiB", "50.0 %", "–"],
        ["▒▒ gradients", "1.00 GiB", "12.5 %", "1"],
        ["▞▞ activations", "3.00 GiB", "37.5 %", "7"],
        ["total", "8.00 GiB 100.0 %"],
        ["── reserved at the peak", "9.00 GiB"],
    ]


def test_what_is_not_known_is_said() -> None:
    shown = showing(use(absolute=False, only_other=True))
    text = " ".join(plain(row).strip() for row in peak_rows(shown, 60, 20))
    assert NOT_TOLD in text
    assert AT_LEAST in text
    known = showing(use())
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
    trace: ("GPU 0 memory by category", "activations", "8.00 GiB allocated at the peak"),
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


async def test_a_gpu_run_keeps_its_steps_beside_the_categories(tmp_path: Path) -> None:
    async with opened(gpu_run(tmp_path), replay=True) as (_, pilot):
        await pilot.press("7")
        await until_shown(pilot, "GPU memory by step")
        await until_shown(pilot, "peak 31.0 GiB")
        await until_shown(pilot, "over the last profiled window")
        await until_shown(pilot, "page cache")


async def test_a_short_screen_has_the_host_in_one_row(tmp_path: Path) -> None:
    async with opened(gpu_run(tmp_path), (80, 24), replay=True) as (_, pilot):
        await pilot.press("7")
        await until_shown(pilot, "By step ▅▅▅")
        await until_shown(pilot, " 0 to 31.0 GiB")
        await until_shown(pilot, "Host    all (RSS) 61.0 GiB   shared once (PSS) 44.0 GiB")


async def test_the_chart_opens_by_category_too(tmp_path: Path) -> None:
    async with opened(trace(tmp_path), replay=True) as (app, pilot):
        await pilot.press("7")
        await until_shown(pilot, "▲ peak")
        await pilot.press("C")
        await until_shown(pilot, "GPU 0 memory by category over the trace")
        await pilot.press("escape")
        await pilot.click("#memory-categories")
        await until_shown(pilot, "GPU 0 memory by category over the trace")
        assert app.screen.query("#chart-plot")


async def test_a_live_run_without_roles_shows_all_processes(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path, started_ns=START)) as (_, pilot):
        await pilot.press("7")
        await until_shown(pilot, "shared pages count once per process")


def test_the_size_of_what_can_run_out_stands_under_capacity(tmp_path: Path) -> None:
    snapshot = RunView(write_run(tmp_path), lambda: NOW, lambda: False).read()
    head, *rows = (plain(line) for line in host_rows(snapshot, 100, 10))
    assert head.split() == ["now", "highest", "capacity"]
    machine = next(line for line in rows if line.startswith("machine in use"))
    end = head.index("capacity") + len("capacity")
    assert machine[:end].endswith("64.0 GiB")
