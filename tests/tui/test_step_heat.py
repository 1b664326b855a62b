"""Steps of all ranks as a heat map, and what its columns and colours stand for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.facts.fact import Facts
from perftui.facts.ranks.rank_table import NEWEST, StepGrid, step_grid
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table
from perftui_tui.charts.bars import LOWER_EIGHTHS
from perftui_tui.look.rows import plain, width
from perftui_tui.screens.ranks import step_heat
from tests.core.diagnosis.runs import MS, joined, make_run, step_table
from tests.tui.driving import opened, press, until_shown
from tests.tui.test_ranks_screen import write_ranks


def of_ranks(*tables: Table) -> RunSnapshot:
    run = make_run()
    ranks = tuple(replace(run.ranks[0], rank=at, steps=table) for at, table in enumerate(tables))
    return replace(run, ranks=ranks)


def usual(count: int, forward: float = 40.0) -> Table:
    return step_table(count, {"forward": forward, "backward": 60.0})


def test_a_step_counts_without_the_wait_for_others() -> None:
    late = joined(usual(3), usual(1, forward=80.0), usual(2))
    grid = step_grid(Facts(of_ranks(usual(6), late)))
    assert grid is not None
    assert (grid.ranks, grid.first, grid.usual) == ((0, 1), 0, 40 * MS)
    assert grid.ratios.tolist() == [[1.0] * 6, [1.0, 1.0, 1.0, 2.0, 1.0, 1.0]]


def test_a_rank_that_is_behind_has_no_newest_steps_yet() -> None:
    grid = step_grid(Facts(of_ranks(usual(4), usual(6))))
    assert grid is not None
    assert np.isnan(grid.ratios[0]).tolist() == [False] * 4 + [True] * 2


def test_one_rank_has_nothing_to_be_held_against() -> None:
    assert step_grid(Facts(of_ranks(usual(6)))) is None
    assert step_grid(Facts(of_ranks(usual(6), Table()))) is None


def test_a_long_run_is_shown_by_its_newest_steps() -> None:
    many = usual(NEWEST + 100)
    grid = step_grid(Facts(of_ranks(many, many)))
    assert grid is not None
    assert (grid.first, grid.ratios.shape[1]) == (100, NEWEST)


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 9) | st.just(float("nan")), min_size=1, max_size=60),
    st.integers(1, 80),
)
def test_the_longest_step_of_a_column_is_kept(ratios: list[float], columns: int) -> None:
    grid = StepGrid((0, 1), 7, np.array([ratios, ratios[::-1]]), 1)
    binned = grid.binned(columns)
    assert binned.shape[1] <= columns
    known = [ratio for ratio in ratios if ratio == ratio]
    for line in binned:
        assert max(line[~np.isnan(line)], default=None) == max(known, default=None)


def test_cells_are_as_high_as_the_step_is_long() -> None:
    grid = StepGrid((0, 5), 100, np.array([[1.0, 1.0, 1.3], [np.nan, 0.1, 2.5]]), 40 * MS)
    first, second, legend = step_heat(grid, 14, 3)
    assert plain(first) == "rank 0    ▄▄▅"
    assert plain(second) == "rank 5     ▁█"
    assert [style for _, style in first[1:]] == ["chart", "chart-warn"]
    assert second[-1] == ("█", "chart-bad")
    assert plain(legend) == " " * 10 + "a c…"
    legend = step_heat(grid, 120, 3)[-1]
    assert "a column is a step, 100 to 102" in plain(legend)
    assert "a full one is 2x the median of 40.0 ms" in plain(legend)


def test_few_steps_of_few_ranks_fill_the_room() -> None:
    grid = StepGrid((0, 5), 100, np.array([[1.0, 1.5], [np.nan, 2.0]]), 40 * MS)
    rows = step_heat(grid, 14, 9)
    assert [plain(line).rstrip() for line in rows] == [
        "",
        "            ▂▂",
        "          ▄▄██",
        "rank 0    ████",
        "",
        "            ██",
        "            ██",
        "rank 5      ██",
        "          a c…",
    ]


@settings(deadline=None)
@given(
    st.lists(st.floats(0.01, 9), min_size=1, max_size=20),
    st.integers(2, 12),
    st.integers(30, 90),
)
def test_a_column_is_as_high_as_its_step_is_long(
    ratios: list[float], tall: int, cells: int
) -> None:
    grid = StepGrid((0, 1), 0, np.array([ratios, ratios]), MS)
    columns = grid.binned(cells - 10).shape[1]
    wide = (cells - 10) // columns
    rows = [plain(line).ljust(cells) for line in step_heat(grid, cells, 2 * tall + 1)][:tall]
    drawn = tall if tall < 3 else tall - 1
    for at in range(columns):
        levels = [LOWER_EIGHTHS.index(line[10 + at * wide]) for line in rows]
        most = drawn * 8
        assert abs(sum(levels) - min(ratios[at] / 2 * most, most)) <= 1
        assert levels == sorted(levels)


def test_ranks_without_room_are_counted() -> None:
    grid = StepGrid(tuple(range(9)), 0, np.ones((9, 5)), MS)
    rows = step_heat(grid, 140, 4)
    assert len(rows) == 4
    assert "and 6 more ranks" in plain(rows[-1])
    assert all(width(line) <= 140 for line in rows)
    assert step_heat(None, 80, 5) == step_heat(grid, 5, 5) == step_heat(grid, 80, 1) == []


async def test_the_ranks_screen_shows_it_below_the_bars(tmp_path: Path) -> None:
    async with opened(write_ranks(tmp_path, 5, 7, 65, 4), (120, 40)) as (_, pilot):
        await press(pilot, "8", until="Steps of each rank")
        await until_shown(pilot, "a column is a step, 0 to 59")
