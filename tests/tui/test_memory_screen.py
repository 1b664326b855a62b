"""The Memory screen: by step, by the processes, and by who holds it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perftui.facts.gpu.memory import MemoryUse, gpu_memory
from perftui.run.columns import EVENT_COLUMNS
from perftui.run.journal import JournalWriter
from perftui.run.layout import RunLayout
from perftui.run.manifest import Status
from perftui_tui.look.rows import plain
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.screens.memory.chart import memory_chart, memory_now
from tests.core.trace.memory_files import Allocator, snapshot
from tests.facts_given import knowing
from tests.tui.driving import opened, text_of, until, until_shown
from tests.tui.recorded import START, write_run

OVER = {"status": Status.EXITED, "exit_code": 0, "ended_ns": START + 10**11}
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


def test_allocated_the_peak_so_far_and_reserved_differ_without_colour() -> None:
    memory = use([GIB, GIB], [4 * GIB] * 2, most=[2 * GIB, 3 * GIB])
    rows = [plain(line)[10:] for line in memory_chart(shown(memory), 12, 6)]
    assert rows[:4] == ["░░", "░▒", "▒▒", "██"]
    assert "▒ peak so far" in plain(memory_chart(shown(memory), 60, 6)[-1])


def test_the_top_of_the_chart_is_the_peak() -> None:
    rows = [plain(line) for line in memory_chart(shown(use([GIB, 2 * GIB], [4 * GIB] * 2)), 40, 10)]
    assert rows[0].startswith(" 4.00 GiB┤")
    assert rows[7].startswith("        0┤█")
    assert rows[8].strip() == f"step 0{'1':>{40 - 10 - 6}}"
    assert "allocated" in rows[9]


def test_trouble_is_said_and_so_is_what_was_not_counted() -> None:
    counted = plain(memory_now(shown(use([1], [1], retries=3, failures=1)), 120, 2)[1])
    assert "3 retries" in counted
    assert "1 failure " in counted
    unknown = MemoryUse(*(np.ones(1, np.int64),) * 4, 1, -1, 1, None, None)
    assert "not counted" in plain(memory_now(shown(unknown), 120, 2)[1])


async def test_a_run_on_the_gpu(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path, gpu=True)) as (_, pilot):
        await pilot.press("7")
        await until_shown(pilot, "GPU memory by step")
        await until_shown(pilot, "peak 31.0 GiB")
        await until_shown(pilot, "GPU 0: 31.0 GiB of 141 GiB")
        await until_shown(pilot, "--memory-snapshot")


async def test_without_a_gpu_it_is_the_processes(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (_, pilot):
        await pilot.press("7")
        await until_shown(pilot, "No GPU memory was recorded")
        await until_shown(pilot, "8.48 GiB")


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 50)])
async def test_what_records_more_is_said_to_the_end(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(write_run(tmp_path), size) as (app, pilot):
        await pilot.press("7")
        await until_shown(pilot, "Memory by category (activations")
        await until(pilot, lambda: "No snapshot" not in text_of(app), "words about the CPU alone")
        view = app.screen.query_one("#allocations")
        # Before it is laid out it has no rows that could be scrolled to.
        await until(pilot, lambda: len(view.rows) == view.content_size.height, "all of its words")
        assert view.max_scroll_y == 0


async def test_before_the_first_step(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path, steps=0)) as (_, pilot):
        await pilot.press("7")
        await until_shown(pilot, "No step yet")


async def test_a_snapshot_in_the_run_is_shown(tmp_path: Path) -> None:
    root = write_run(tmp_path, gpu=True, **OVER)
    rank = RunLayout(root).rank(0)
    rank.memory.mkdir()
    (rank.memory / "peak.pickle").write_bytes(three_lines())
    async with opened(root) as (_, pilot):
        await pilot.press("7")
        await until_shown(pilot, "Allocations by call site (peak.pickle)")
        await until_shown(pilot, "model.py:12")


@pytest.mark.slow
async def test_one_that_is_taken_while_it_runs_is_shown_too(tmp_path: Path) -> None:
    root = write_run(tmp_path, gpu=True)
    async with opened(root) as (_, pilot):
        await pilot.press("7")
        await until_shown(pilot, "allocations by call site are unknown")
        rank = RunLayout(root).rank(0)
        rank.memory.mkdir()
        (rank.memory / "peak.pickle").write_bytes(three_lines())
        await until_shown(pilot, "model.py:12")
        (rank.memory / "out-of-memory.pickle").write_bytes(b"\x80\x04]")
        await until_shown(pilot, "the memory snapshot out-of-memory.pickle cannot be read")
        await pilot.press("1")
        await until_shown(pilot, "out-of-memory.pickle cannot be read")


@pytest.mark.slow
async def test_a_played_run_has_no_snapshot_before_it_was_taken(tmp_path: Path) -> None:
    root = write_run(tmp_path, gpu=True, **OVER)
    rank = RunLayout(root).rank(0)
    rank.memory.mkdir()
    (rank.memory / "peak.pickle").write_bytes(three_lines())
    when = START + 30 * 10**9
    events = JournalWriter(rank.events, EVENT_COLUMNS)
    data = {"file": "memory/peak.pickle", "reason": "peak"}
    events.append([[when, "memory_snapshot", 0, 60, data]])
    events.close()
    async with opened(root, replay=True) as (app, pilot):
        await pilot.press("7")
        await until_shown(pilot, "model.py:12")
        await pilot.press("P")
        app.playback.seek(when - 1)
        await until_shown(pilot, "allocations by call site are unknown")
        app.playback.seek(when)
        await until_shown(pilot, "model.py:12")


@pytest.mark.keys(
    "memory.scroll_sites(1)",
    "memory.scroll_sites(-1)",
    "memory.scroll_sites(8)",
    "memory.scroll_sites(-8)",
)
async def test_a_file_opens_on_this_screen_and_scrolls(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(three_lines())
    async with opened(path, (80, 24), replay=True) as (app, pilot):
        await until(pilot, lambda: app.current_mode == "memory", "the memory")
        await until_shown(pilot, "3.00 GiB")
        head = "GPU 0: 4.00 GiB allocated of 6.00 GiB reserved"
        await until_shown(pilot, f"{head}   peak 6.00 GiB held")
        allocations = app.snapshot.allocations
        peak = replace(allocations.devices[0].peak, absolute=False)
        unknown = replace(allocations, devices=(replace(allocations.devices[0], peak=peak),))
        (row,) = memory_now(replace(app.snapshot, allocations=unknown), 80, 2)
        assert plain(row) == head
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
        await pilot.press("1")
        await until_shown(pilot, "has no timings")
        await pilot.press("3")
        await until_shown(pilot, "7 shows allocations by call site")
