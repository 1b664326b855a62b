"""The keys that move through the tables of ranks and runs, and sort them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from perftui_tui.app import PerftuiApp
from perftui_tui.tables.virtual import VirtualTable
from tests.tui.driving import opened, until
from tests.tui.recorded import START, write_run
from tests.tui.test_ranks_screen import write_ranks

pytestmark = pytest.mark.slow


async def table_on(app: PerftuiApp, pilot: Pilot[None], digit: str, rows: int) -> VirtualTable:
    await pilot.press(digit)

    def has_rows() -> bool:
        table = app.screen.focused
        return isinstance(table, VirtualTable) and len(table.data) == rows

    await until(pilot, has_rows, "the rows")
    table = app.screen.focused
    assert isinstance(table, VirtualTable)
    return table


def many_ranks(folder: Path) -> tuple[Path, str]:
    return write_ranks(folder, *range(4, 44)), "8"


def many_runs(folder: Path) -> tuple[Path, str]:
    for number in range(39):
        write_run(
            folder, steps=2, run_id=f"2023111{number:02}-run", started_ns=START - number * 10**9
        )
    return write_run(folder, steps=2), "9"


@pytest.mark.keys(
    "ranks.table.move(1)",
    "ranks.table.move(-1)",
    "ranks.table.page(1)",
    "ranks.table.page(-1)",
    "ranks.table.edge(1)",
    "ranks.table.edge(-1)",
    "runs.table.move(1)",
    "runs.table.move(-1)",
    "runs.table.page(1)",
    "runs.table.page(-1)",
    "runs.table.edge(1)",
    "runs.table.edge(-1)",
)
@pytest.mark.parametrize("make", [many_ranks, many_runs])
async def test_the_selection_moves_by_rows_pages_and_to_the_ends(
    tmp_path: Path, make: Callable[[Path], tuple[Path, str]]
) -> None:
    root, digit = make(tmp_path)
    async with opened(root, (120, 24)) as (app, pilot):
        table = await table_on(app, pilot, digit, 40)

        def place() -> int:
            return table.order.tolist().index(table.selected_row)

        await pilot.press("home")
        assert place() == 0
        await pilot.press("down", "down")
        assert place() == 2
        await pilot.press("up")
        assert place() == 1
        await pilot.press("pagedown")
        page = place() - 1
        assert 5 < page < 24
        await pilot.press("pageup")
        assert place() == 1
        await pilot.press("end")
        assert place() == 39


@pytest.mark.keys("runs.table.sort(1)", "runs.table.sort(-1)", "runs.table.reverse")
async def test_runs_are_sorted_by_each_column(tmp_path: Path) -> None:
    root, digit = many_runs(tmp_path)
    async with opened(root, (200, 50)) as (app, pilot):
        table = await table_on(app, pilot, digit, 40)
        before = table.order.tolist()
        await pilot.press("R")
        assert table.order.tolist() != before
        await pilot.press("R")
        assert table.order.tolist() == before
        column = table._sort_column
        await pilot.press("greater_than_sign")
        after = table._sort_column
        assert after != column
        await pilot.press("less_than_sign")
        assert table._sort_column == column
