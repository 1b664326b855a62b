"""Panes as rows of text: what they say at each size, with and without data."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.fact import Facts
from perftui.facts.step.own_cost import OwnCost, overhead_budget, recording_cost
from perftui.facts.step.steps import StepBreakdown
from perftui.run.columns import PHASES, WORKER_COLUMNS, phase_name
from perftui.run.journal import Column, JournalWriter
from perftui.run.layout import RunLayout
from perftui_tui.look.rows import plain, width
from perftui_tui.panes.gpu import gpu
from perftui_tui.panes.machine import NO_GPU, cpu, disk, loader, network, step_time
from perftui_tui.panes.meter import Meter, draw_chart, draw_line
from perftui_tui.panes.step_bar import breakdown_bar, legend_of, step_bar
from perftui_tui.reading.snapshot import SHORT_NAMES, TRACE_STYLES, DrawnStep, Phase, Snapshot
from perftui_tui.reading.view import RunView
from perftui_tui.screens.overview.dashboard import METERS, draw_meter
from tests.facts_given import facts_with
from tests.tui.driving import opened, text_of, until, until_shown
from tests.tui.recorded import ENDED, MS, NOW, write_run
from tests.tui.traces import write_trace


def snapshot_of(tmp_path: Path, **contents: Any) -> Snapshot:
    return RunView(write_run(tmp_path / "runs", **contents), lambda: NOW, lambda: False).read()


Parts = tuple[tuple[str, int], ...]


def drawn(parts: Parts) -> DrawnStep:
    """One step of these phases, in ns."""
    mean = sum(ns for _, ns in parts)
    return DrawnStep(StepBreakdown(1, mean, parts, mean, mean, mean, mean), "one step")


def test_a_run_is_read_in_its_units_and_the_bar_sums_to_its_step(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path)
    breakdown = snapshot.breakdown
    assert sum(part.ns for part in breakdown.parts) == breakdown.mean.mean
    assert cpu(snapshot).reading == "22 %"
    assert disk(snapshot).reading == "read 200 MB/s"
    assert network(snapshot).reading == "in 300 kB/s"
    assert step_time(snapshot).beside == [("perftui <0.1 %", "dim")]


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=9), st.integers(20, 200))
def test_the_bar_fills_its_width_exactly(times: list[int], cells: int) -> None:
    parts = tuple(("forward", ns) for ns in times)
    mean = sum(times)
    rows = breakdown_bar(drawn(parts), cells)
    if mean:
        assert [width(line) for line in rows[1:]] == [cells, cells]


def test_parts_of_the_bar_are_named_and_timed() -> None:
    parts = (("input_wait", 60 * MS), ("forward", 40 * MS))
    rows = breakdown_bar(drawn(parts), 40)
    assert [plain(line) for line in rows[1:]] == [
        "▏data loader wait       ▏forward        ",
        "▏60.0 ms 60 %           ▏40.0 ms 40 %   ",
    ]


SMALL = (
    ("input_wait", 63_500_000),
    ("loader_start", 4_000),
    ("forward", 64_500_000),
    ("backward", 77_600_000),
    ("optimizer", 1_310_000),
    ("profiler", 10_000),
    ("other", 2_870_000),
)


def bar_of(parts: Parts, cells: int) -> list[str]:
    snapshot = Snapshot(Path("run"), Phase.ENDED, "train.py", 0, breakdown=drawn(parts))
    return [plain(line) for line in step_bar(snapshot, cells, 4)]


def test_parts_of_many_seconds_are_told_in_seconds() -> None:
    parts = (("loader_start", 34_780 * MS), ("forward", 9_990 * MS))

    times = [time.strip() for time in bar_of(parts, 100)[2].split("▏")]
    assert times == ["", "34.8 s 78 %", "9990 ms 22 %"]


@pytest.mark.parametrize(
    ("cells", "legend"),
    [
        (60, "▏loader start <1 % ▏optimizer 1 % ▏perftui <1 % ▏other 1 %"),
        (80, "▏loader start <1 % ▏optimizer 1 % ▏perftui <1 % ▏other 1 %"),
        (
            120,
            "▏loader start <0.01 ms <1 %  ▏optimizer 1.31 ms 1 %  ▏perftui 0.01 ms <1 %  "
            "▏other 2.87 ms 1 %",
        ),
    ],
)
def test_what_has_no_room_in_the_bar_is_told_below_it(cells: int, legend: str) -> None:
    rows = bar_of(SMALL, cells)
    assert [word.strip() for word in rows[1].split("▏") if word.strip()] == [
        "data loader wait",
        "forward",
        "backward",
    ]
    assert rows[3].strip() == legend


def test_a_bar_too_short_for_any_name_has_them_beside_it() -> None:
    legend = plain(legend_of(drawn(SMALL), 4, 70))
    assert legend == "▏data loader wait 30 % ▏forward 31 % ▏backward 37 % and 4 smaller"


@pytest.mark.parametrize("cells", [60, 80, 120, 200])
def test_a_bar_that_tells_all_has_no_legend(cells: int) -> None:
    assert len(bar_of((SMALL[0], SMALL[2], SMALL[3]), cells)) == 3


KNOWN = sorted(
    {*map(phase_name, PHASES), *TRACE_STYLES, *SHORT_NAMES}
    - {phase for phase in PHASES if phase_name(phase) != phase}
)


@given(
    st.lists(st.tuples(st.sampled_from(KNOWN), st.integers(1, 10**9)), min_size=1, max_size=9),
    st.integers(60, 200),
)
def test_no_word_of_the_bar_is_cut_and_none_is_untold(
    parts: list[tuple[str, int]], cells: int
) -> None:
    rows = bar_of(tuple(dict(parts).items()), cells)
    assert all(len(line) <= cells for line in rows[1:])
    words = {word.strip() for word in rows[1].split("▏")} - {""}
    whole = {name: {name, *SHORT_NAMES.get(name, ())} for name, _ in parts}
    assert words <= set().union(*whole.values())
    below = rows[3] if len(rows) > 3 else ""
    if "smaller" not in below:
        for name, spellings in whole.items():
            assert spellings & words or f"▏{name} " in below


def test_no_step_is_said_not_drawn_as_zero() -> None:
    assert "no step has been measured" in plain(breakdown_bar(None, 80)[0])


def test_what_the_run_does_not_have_gives_its_place_to_others(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path, wait_ms=0)
    assert gpu(snapshot).is_missing
    assert NO_GPU in cpu(snapshot).notes


def test_an_idle_gpu_is_low(tmp_path: Path) -> None:
    meter = gpu(snapshot_of(tmp_path, gpu=True))
    assert (meter.word, meter.reading) == ("LOW", "busy 50 %")
    assert "mem 31.0 GiB of 141 GiB" in meter.notes
    assert "412 W" in meter.notes


@pytest.mark.parametrize(
    ("contents", "word", "notes"),
    [
        ({}, "HIGH", {"main thread"}),
        ({"workers": 2}, "HIGH", {"queue 0.0/4", "2 workers"}),
        ({"wait_ms": 0, "workers": 2}, "OK", set()),
    ],
)
def test_a_waiting_step_or_an_empty_queue_makes_the_loader_high(
    tmp_path: Path, contents: dict[str, int], word: str, notes: set[str]
) -> None:
    meter = loader(snapshot_of(tmp_path, **contents))
    assert meter.word == word
    assert notes <= set(meter.notes)


def write_workers(root: Path, **row: int) -> None:
    """Two rows of each of two workers, a second each; what is not given is 0."""
    usual = {"loader": 1, "pid": 7, "elapsed": 1000 * MS}
    names = [column.name for column in WORKER_COLUMNS]
    journal = JournalWriter(RunLayout(root).rank(0).workers, WORKER_COLUMNS)
    for second, worker in ((1, 0), (1, 1), (2, 0), (2, 1)):
        values = {**usual, "time": NOW + second * 1000 * MS, "worker": worker, **row}
        journal.append([[values.get(name, 0) for name in names]])
    journal.close()


@pytest.mark.parametrize(
    ("row", "notes"),
    [
        (
            {"batches": 10, "sized": 10, "bytes": 10**7, "fetch": 600 * MS, "collate": 300 * MS},
            ("90 % busy", "fetch 60.0 ms + collate 30.0 ms", "20 MB/s"),
        ),
        (
            {"batches": 10, "sized": 9, "bytes": 10**7, "fetch": 600 * MS},
            ("60 % busy", "fetch 60.0 ms + collate 0 ns"),
        ),
        ({"loader": 2, "batches": 10, "fetch": 600 * MS}, ()),
        ({"fetch": 1000 * MS}, ()),
    ],
    ids=["known", "of unknown size", "of another loader", "no batch yet"],
)
def test_the_work_of_the_loader_is_told_as_far_as_it_is_known(
    tmp_path: Path, row: dict[str, int], notes: tuple[str, ...]
) -> None:
    root = write_run(tmp_path / "runs", workers=2)
    write_workers(root, **row)
    assert loader(RunView(root, lambda: NOW, lambda: False).read()).notes[3:] == notes


def test_what_workers_take_of_the_machine_is_told(tmp_path: Path) -> None:
    root = write_run(tmp_path / "runs", workers=2)
    names = ["time", "processes.workers_cpu", "processes.workers_read"]
    (telemetry,) = RunLayout(root).telemetry_files()
    telemetry.unlink()
    journal = JournalWriter(telemetry, [Column(name) for name in names])
    journal.append([[NOW, 150.0, 2e6]])
    journal.close()
    meter = loader(RunView(root, lambda: NOW, lambda: False).read())
    assert meter.notes[3:] == ("workers use 1.5 cores", "read 2 MB/s")


@pytest.mark.parametrize(
    ("taken", "at_most", "limit", "text", "style"),
    [
        (3, 4, 0.005, "perftui 0.3 %, limit 0.5 %", "dim"),
        (3, 21, 0.005, "perftui 0.3 to 2.1 %, limit 0.5 %", "dim"),
        (12, 21, 0.01, "perftui 1.2 %, limit 1 %", "warn"),
        (33, 40, 0.01, "perftui 3.3 %, falling to 1 %", "dim"),
        (120, 120, 0.01, "perftui 12 %, limit 1 %", "warn"),
        (2, 14, 0.0025, "perftui 0.2 to 1.4 %, limit 0.25 %", "dim"),
    ],
)
def test_the_cost_of_recording_stands_whole_beside_its_limit(
    tmp_path: Path, taken: int, at_most: int, limit: float, text: str, style: str
) -> None:
    """In the row of the meter in 80 columns, and in the heading of the bar from 100 on."""
    snapshot = snapshot_of(tmp_path, profile={"overhead": limit})
    assert snapshot.ask(overhead_budget) == limit
    window = 30 if "falling" in text else 0
    cost = OwnCost((taken - window) * MS, window * MS, 0, (at_most - taken) * MS, 1000 * MS)
    given = {recording_cost: cost, overhead_budget: limit}
    snapshot = replace(snapshot, facts=facts_with(Facts(None), given))
    for word in ("EVEN", "UNEVEN"):
        meter = replace(step_time(snapshot), word=word)
        assert (text, style) in draw_line(meter, 80)[0]
    for cells in (100, 120, 200):
        assert (text, style) in step_bar(snapshot, cells, 4)[0]
    assert all("perftui" not in plain(row) for row in draw_chart(step_time(snapshot), 64, 6))


@pytest.mark.parametrize("name", METERS)
@pytest.mark.parametrize("size", [(80, 1), (36, 8), (20, 3), (9, 4), (66, 20)])
@pytest.mark.parametrize("steps", [0, 1, 200])
def test_meters_fit_where_they_are_drawn(
    tmp_path: Path, name: str, size: tuple[int, int], steps: int
) -> None:
    snapshot = snapshot_of(tmp_path, steps=steps, gpu=steps > 1)
    rows = draw_meter(METERS[name][0])(snapshot, *size)
    assert rows
    assert all(width(line) <= size[0] for line in rows)
    assert any(plain(line).strip() for line in rows)


def test_a_meter_with_data_has_a_word_or_a_number(tmp_path: Path) -> None:
    for read, _ in METERS.values():
        meter: Meter = read(snapshot_of(tmp_path / read.__name__, gpu=True))
        assert meter.reading
        assert not meter.absent


@pytest.mark.slow
async def test_the_bar_takes_a_row_more_only_where_it_needs_one(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), (80, 24)) as (app, pilot):
        await until_shown(pilot, "▏other 12.0 ms 4 %")
        pane = app.screen.query_one("#step-bar")
        assert pane.size.height == 4
        await pilot.resize_terminal(200, 50)
        await until(pilot, lambda: pane.size.height == 3, "one row less")
        assert "▏other 12.0" not in text_of(app)
        assert "▏other" in text_of(app)
        await pilot.resize_terminal(80, 24)
        await until_shown(pilot, "▏other 12.0 ms 4 %")


async def test_the_smallest_screen_shows_a_finding(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), (60, 18)) as (_, pilot):
        await until_shown(pilot, "up to 1.66x faster", "nothing else was found")
        await pilot.resize_terminal(60, 24)
        await until_shown(pilot, "epoch 1 step 199", "▏other 12.0 ms 4 %")


async def test_a_wide_screen_has_operators_beside_findings_and_the_cpu_charted(
    tmp_path: Path,
) -> None:
    root = write_run(tmp_path, **ENDED)
    window = RunLayout(root).rank(0).window(30)
    window.parent.mkdir()
    window.write_text(write_trace(tmp_path, gpu=False).read_text())
    async with opened(root, (120, 40), replay=True) as (app, pilot):
        await until_shown(pilot, "Top operators", "no GPU: times")
        await pilot.resize_terminal(200, 50)
        await until_shown(pilot, "Top ops")
        await until(pilot, lambda: "Top operators" not in text_of(app), "the CPU in its place")
        titles = [line for line in text_of(app).splitlines() if "─ CPU ─" in line]
        assert len(titles) == 1
        found, listed = (app.screen.query_one(name) for name in ("#findings", "#top-ops"))
        assert (found.region.y, found.region.height) == (listed.region.y, listed.region.height)
        assert found.region.height > 8
        await pilot.resize_terminal(120, 40)
        await until_shown(pilot, "Top operators")
