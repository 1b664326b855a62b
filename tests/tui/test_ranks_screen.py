"""The Ranks screen: ranks of a run, and of a directory of traces."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.facts.fact import Facts
from perftui.facts.ranks.rank_table import NEWEST, RankRow, RankTable, SlowRank, StepGrid, step_grid
from perftui.run.columns import STEP_COLUMNS
from perftui.run.journal import JournalWriter
from perftui.run.layout import RunLayout
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table
from perftui.trace.rank_files import find_ranks
from perftui.trace.recordings import choose_rank
from perftui.trace.remote import mirror, remote_of
from perftui_tui.charts.cells import LOWER_EIGHTHS
from perftui_tui.look.format import format_ns
from perftui_tui.look.rows import plain, width
from perftui_tui.panes.step_bar import EDGE
from perftui_tui.reading.snapshot import name_within
from perftui_tui.screens.ranks import rank_bars, rank_beside, rank_headline, rank_table, step_heat
from perftui_tui.tables.rows import GAP, column_widths, shown_columns
from tests.core.diagnosis.runs import MS, joined, make_run, step_table
from tests.step_rows import step_row
from tests.traces.builder import TraceBuilder, ms, us, write_ranks
from tests.traces.builder import write_ranks as write_rank_traces
from tests.tui.driving import opened, press, text_of, until, until_shown
from tests.tui.recorded import ENDED, START, write_run
from tests.tui.traces import even_steps


def write_run_of_ranks(folder: Path, *waits: int, steps: int = 60, **changes: Any) -> Path:
    """A run whose ranks wait so many ms for data; in backward they wait for the slowest."""
    root = write_run(folder, steps=steps, **changes)
    for rank, wait in enumerate(waits):
        layout = RunLayout(root).rank(rank)
        layout.root.mkdir(exist_ok=True)
        layout.steps.unlink(missing_ok=True)
        journal = JournalWriter(layout.steps, STEP_COLUMNS)
        parts = [wait * MS, 0, 40 * MS, (60 + max(waits) - wait) * MS, 10 * MS, 0, 0]
        journal.append([step_row(at, parts, start=START + at * sum(parts)) for at in range(steps)])
        journal.close()
    return root


def write_traces(folder: Path, *compute_us: int) -> Path:
    """A directory with the trace of each rank, whose kernels take so long in steps of 10 ms."""
    return write_rank_traces(folder, [even_steps(6, compute=us(each)) for each in compute_us])


async def test_the_rank_that_the_others_wait_for_is_named_and_stands_beside_them(
    tmp_path: Path,
) -> None:
    async with opened(write_run_of_ranks(tmp_path, 5, 5, 65, 5), (200, 50)) as (app, pilot):
        await press(pilot, "8", until="Rank 2 is 60.0 ms a step behind the others")
        await until_shown(pilot, "60.0 ms of it in data loader wait; the others wait for it")
        await until_shown(pilot, "SLOWEST", "Steps of each rank", "a column is a step, 0 to 59")
        await press(pilot, "down", "down", until="Rank 2 beside the others")
        lines = [" ".join(line.strip("│ ").split()) for line in text_of(app).splitlines()]
        assert "data loader wait 65.0 ms 5.00 ms +60.0 ms +34 %" in lines
        assert "backward 60.0 ms 120 ms -60.0 ms -34 %" in lines
        assert "step 175 ms 175 ms 0 ns 0 %" in lines
        await press(pilot, "up", until="Rank 1 beside the others")


async def test_even_ranks_are_said_to_be_even(tmp_path: Path) -> None:
    async with opened(write_run_of_ranks(tmp_path, 5, 5)) as (app, pilot):
        await press(pilot, "8", until="The ranks are even")
        assert "SLOWEST" not in text_of(app)


@pytest.mark.keys(
    "ranks.table.sort(1)", "ranks.table.sort(-1)", "ranks.table.reverse", "ranks.table.open",
)  # fmt: skip
async def test_keys_sort_the_table_and_enter_shows_a_rank_on_all_screens(tmp_path: Path) -> None:
    async with opened(write_run_of_ranks(tmp_path, 5, 65), (160, 40)) as (app, pilot):
        await press(pilot, "8", until="SLOWEST")

        def first() -> str:
            row = next(line for line in text_of(app).splitlines()[2:] if "175 ms" in line)
            return row.replace("▶", " ").split()[0]

        assert first() == "0"
        await pilot.press("R")
        await until(pilot, lambda: first() == "1", "rank 1 first")
        await pilot.press("R")
        await until(pilot, lambda: first() == "0", "rank 0 first")
        # Another column chosen and left again: numbers begin with the largest.
        await pilot.press("less_than_sign", "greater_than_sign")
        await until(pilot, lambda: first() == "1", "rank 1 first")
        await pilot.press("home", "enter")
        await until(pilot, lambda: app.snapshot and app.snapshot.rank_number == 1, "rank 1")
        assert app.snapshot.rank.rank == 1
        await until_shown(pilot, "▶ 1")
        await press(pilot, "1", until="65.0 ms")
        assert " rank 1 " in text_of(app).splitlines()[0]


async def test_before_any_rank_has_written(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path, torch_version=None)) as (_, pilot):
        await press(pilot, "8", until="no rank has recorded a step yet")


async def test_one_trace_says_how_to_compare_several(tmp_path: Path) -> None:
    path = write_traces(tmp_path, 4000) / "rank0.pt.trace.json"
    async with opened(path, replay=True) as (_, pilot):
        await press(pilot, "8", until="only one trace is open: perftui DIR")


async def test_the_traces_of_a_directory_are_read_when_they_are_looked_at(tmp_path: Path) -> None:
    ranks = find_ranks(write_traces(tmp_path, 4000, 4000, 7000))
    async with opened(ranks[0].path, (160, 40), ranks=ranks, replay=True) as (app, pilot):
        assert app.rank_traces.table is None
        await pilot.press("8")
        await until(pilot, lambda: app.rank_traces.table and not app.rank_traces.doing, "all")
        rows = app.rank_traces.table.rows
        assert [row.part("gpu compute") for row in rows] == [4 * MS, 4 * MS, 7 * MS]
        await until_shown(pilot, "each trace has its own clock")
        await pilot.press("end", "enter")
        await until(pilot, lambda: app.target == ranks[2].path, "rank 2")


def rows(*means: int) -> tuple[RankRow, ...]:
    return tuple(
        RankRow(number, "", 9, 9, mean, mean, mean, (("forward", mean),))
        for number, mean in enumerate(means)
    )


def test_bars_share_one_scale_and_name_what_is_left_out() -> None:
    drawn = [plain(line) for line in rank_bars(RankTable(rows(100, 50, 50)), 80, 3)]
    assert drawn[0].count("▏") == 1
    assert drawn[0].index("100 ns") == drawn[1].index(" 50 ns")
    assert "and 1 more ranks" in drawn[2]
    assert "forward" in drawn[2]


def test_parts_of_a_bar_are_named_by_words_or_not_at_all() -> None:
    parts = tuple((name, 100 * MS) for name in ("input_wait", "forward", "exposed communication"))
    mean = sum(ns for _, ns in parts)
    rank = RankRow(0, "", 9, 9, mean, mean, mean, parts)
    waits, passes = ["data loader wait", "loader wait", "wait"], ["forward", "fwd"]
    names = [*waits, *passes, "exposed communication", "communication", "comm"]
    for cells in range(24, 140):
        bar, legend = (plain(line) for line in rank_bars(RankTable((rank,)), cells, 2))
        found = [part.strip() for part in bar.removesuffix("   300 ms").split(EDGE)[1:]]
        assert set(found) <= {"", "33 %", *(f"{name} 33 %" for name in names)}, cells
        assert len(found) == 3
    assert found == ["data loader wait 33 %", "forward 33 %", "exposed communication 33 %"]
    assert [part.strip() for part in legend.split(EDGE)[1:]] == [names[0], names[3], names[5]]


@pytest.mark.parametrize("cells", [60, 80, 120])
def test_columns_that_do_not_fit_go_whole_and_the_largest_parts_stay(cells: int) -> None:
    parts = {"gpu compute": 40, "exposed communication": 30, "data loader wait": 5,
             "launch-bound": 2, "synchronisation": 9, "python": 20, "unexplained": 1}  # fmt: skip
    mean = sum(parts.values())
    ranks = tuple(RankRow(n, "node1", 9, 9, mean, mean, mean, tuple(parts.items())) for n in (0, 1))
    table = RankTable(ranks, SlowRank(1, 31 * MS, "python", 30 * MS))
    columns = rank_table(table, 0, "none").columns
    shown = shown_columns(columns, cells)
    widths = column_widths(columns, shown, cells)
    assert sum(widths) + GAP * (len(widths) - 1) <= cells
    titles = [columns[at].title for at in shown]
    assert {"rank", "step", "gpu compute", "communication"} <= set(titles)
    sizes = [
        size
        for name, size in parts.items()
        if name_within(name.removeprefix("exposed "), 13) in titles
    ]
    assert sorted(sizes, reverse=True) == sorted(parts.values(), reverse=True)[: len(sizes)]


def test_a_rank_without_steps_shows_dashes_and_is_not_compared() -> None:
    table = RankTable((*rows(100), RankRow(1, "", 0, 0)))
    assert "Too few ranks have steady steps" in plain(rank_headline(table, 80)[0])
    data = rank_table(table, 0, "none")
    step = next(column for column in data.columns if column.title == "step")
    assert step.text(1) == "–"


@pytest.mark.parametrize("cells", [60, 200])
def test_the_verdict_wraps(cells: int) -> None:
    slow = SlowRank(17, 31 * MS, "input_wait", 30 * MS)
    lines = rank_headline(RankTable(rows(1, 2), slow, 0.5, ("a note",)), cells)
    text = " ".join(" ".join(map(plain, lines)).split())
    assert "Rank 17 is 31.0 ms a step behind the others, 30.0 ms of it in data loader wait" in text
    assert all(len(plain(line)) <= cells for line in lines)


def communicating(compute_us: int) -> TraceBuilder:
    """Steps of 10 ms that compute, and then wait for others in a collective until 7.4 ms."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().pause(us(200)).launch("gemm", us(compute_us), starts=begin + us(400))
        computed = begin + us(400 + compute_us)
        t.all_reduce(begin + us(7_400) - computed, starts=computed).at(begin + ms(10)).end()

    return TraceBuilder().repeat(6, step)


async def test_windows_tell_the_communication_that_nothing_hides(tmp_path: Path) -> None:
    root = write_run_of_ranks(tmp_path, 5, 65, **ENDED)
    for rank, compute in enumerate((2000, 5000)):
        window = RunLayout(root).rank(rank).window(30)
        window.parent.mkdir()
        communicating(compute).write(window)
    async with opened(root, (160, 40)) as (app, pilot):
        await press(pilot, "8", until="comm")
        first, second = (line for line in text_of(app).splitlines() if "node1" in line)
        assert "5.00 ms" in first
        assert "2.00 ms" in second
        assert app.rank_traces.table.straggler.rank == 1


async def test_a_trace_is_judged_again_once_those_of_the_others_are_read(tmp_path: Path) -> None:
    """Rank 1 computes longer by 3 of each 10 ms: the diagnosis of rank 0 says so, and that of
    rank 1 when it is opened."""
    ranks = find_ranks(write_rank_traces(tmp_path, [communicating(2000), communicating(5000)]))
    async with opened(ranks[0].path, (160, 40), ranks=ranks, replay=True) as (app, pilot):
        assert "straggler" in {one.rule for one in app.snapshot.diagnosis.abstentions}
        await press(pilot, "8", until="waits caused")
        await until_shown(pilot, "Rank 1 is 3.00 ms a step behind the others")

        def said() -> str:
            found = app.snapshot.diagnosis.findings if app.snapshot else ()
            return next((one.sentence for one in found if one.rule == "straggler"), "")

        await until(pilot, lambda: "makes rank 0 wait 3.0 ms" in said(), "the straggler")
        await pilot.press("end", "enter")
        await until(pilot, lambda: "makes each of the others wait" in said(), "that of rank 1")


PARTS = st.lists(st.integers(0, 10**9), min_size=3, max_size=3)


@given(st.lists(PARTS, min_size=1, max_size=5), st.integers(0, 5))
def test_each_part_beside_the_median_of_the_others(parts: list[list[int]], rank: int) -> None:
    named = [tuple(zip(("forward", "backward", "other"), one, strict=True)) for one in parts]
    rows = tuple(RankRow(n, "", 9, 9, sum(one), 0, 0, named[n]) for n, one in enumerate(parts))
    drawn = [plain(line) for line in rank_beside(RankTable(rows), rank, 120)]
    others = [one for n, one in enumerate(parts) if n != rank and sum(one)]
    if rank >= len(parts) or not sum(parts[rank]) or not others:
        assert drawn == []
        return
    for at, name in enumerate(("forward", "backward", "other")):
        own, usual = parts[rank][at], round(median(one[at] for one in others))
        found = [line for line in drawn if line.startswith(f"{name} ")]
        assert bool(found) is bool(own or usual)
        for line in found:
            sign = "+" if own > usual else ""
            figures = f"{format_ns(own):>12}{format_ns(usual):>12}"
            assert line.startswith(f"{name:<24}{figures}{sign + format_ns(own - usual):>12}")


def test_where_ranks_wait_for_each_other_longer_is_not_worse() -> None:
    rows = tuple(
        RankRow(n, "", 9, 9, 100 * MS, 0, 0, (("forward", own * MS), ("backward", rest * MS)))
        for n, (own, rest) in enumerate(((80, 20), (20, 80)))
    )
    _, *lines = rank_beside(RankTable(rows), 0, 120)
    styles = {plain(line).split()[0]: line[-1][1] for line in lines}
    assert styles == {"forward": "bad", "backward": "dim", "step": "dim"}


def of_ranks(*tables: Table) -> RunSnapshot:
    run = make_run()
    ranks = tuple(replace(run.ranks[0], rank=at, steps=table) for at, table in enumerate(tables))
    return replace(run, ranks=ranks)


def usual(count: int, forward: float = 40.0) -> Table:
    return step_table(count, {"forward": forward, "backward": 60.0})


def test_a_step_counts_without_the_wait_for_others() -> None:
    late = joined(usual(3), usual(1, forward=80.0), usual(2))
    grid = step_grid(Facts(of_ranks(usual(6), late)))
    assert (grid.ranks, grid.first, grid.usual) == ((0, 1), 0, 40 * MS)
    assert grid.ratios.tolist() == [[1.0] * 6, [1.0, 1.0, 1.0, 2.0, 1.0, 1.0]]
    # A rank that is behind has no newest steps yet.
    grid = step_grid(Facts(of_ranks(usual(4), usual(6))))
    assert np.isnan(grid.ratios[0]).tolist() == [False] * 4 + [True] * 2
    assert step_grid(Facts(of_ranks(usual(6)))) is None
    assert step_grid(Facts(of_ranks(usual(6), Table()))) is None
    # A long run is shown by its newest steps.
    many = usual(NEWEST + 100)
    grid = step_grid(Facts(of_ranks(many, many)))
    assert (grid.first, grid.ratios.shape[1]) == (100, NEWEST)


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 9) | st.just(float("nan")), min_size=1, max_size=60), st.integers(1, 80)
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
    st.lists(st.floats(0.01, 9), min_size=1, max_size=20), st.integers(2, 12), st.integers(30, 90)
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


URL = "memory://app/traces"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stand-ins of three ranks, of which one is damaged."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = fsspec.filesystem("memory")
    here = tmp_path / "here"
    here.mkdir()
    write_ranks(here, [even_steps(6, compute=us(each)) for each in (900, 2900, 900)])
    damaged = '{"distributedInfo": {"rank": 2, "world_size": 3}, "traceEvents": [!!!]}'
    (here / "rank2.pt.trace.json").write_text(damaged)
    store.put(f"{here}/", "/app/traces/", recursive=True)
    yield mirror(URL)
    store.rm("/app", recursive=True)


async def test_ranks_are_compared_and_opened(folder: Path) -> None:
    chosen = choose_rank(folder)
    async with opened(chosen.path, (160, 40), ranks=chosen.ranks) as (app, pilot):
        await pilot.press("8")
        await until_shown(
            pilot, f"rank 2 cannot be read: {URL}/rank2.pt.trace.json holds no events"
        )
        await until(pilot, lambda: app.rank_traces.table and not app.rank_traces.doing, "all")
        other = folder / "rank1.pt.trace.json"
        assert remote_of(other) is not None
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.snapshot and app.snapshot.source == other, "rank 1")
        assert remote_of(other) is None
