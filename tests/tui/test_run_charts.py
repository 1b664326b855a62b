"""Charts: what they hold, and how one moves in them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.run.columns import STEP_COLUMNS
from perftui.run.table import GrowingTable, Table
from perftui_tui.charts.run_charts import Chart, charts_of
from perftui_tui.dialogs.chart import MOST_POINTS, ChartScreen, downsampled
from perftui_tui.look.rows import plain
from perftui_tui.panes.meter import MARK, draw_chart
from perftui_tui.panes.meters import step_time
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.widgets.row_view import RowView
from tests.step_rows import step_row
from tests.tui.driving import close, opened, press, text_of, until, until_shown
from tests.tui.recorded import write_run

MS = 1_000_000


def shown(durations_ms: list[int], **more: object) -> Snapshot:
    """A run whose steps took so long, one after the other."""
    table = GrowingTable(STEP_COLUMNS, floats=False, text=("kind",))
    at, rows = 0, []
    for number, long in enumerate(durations_ms):
        rows.append(step_row(number, [0, 0, long * MS, 0, 0, 0, 0], start=at))
        at += long * MS
    table.extend(rows)
    train: Table = table.freeze()
    known = {"train": train, "train_steps": len(durations_ms), **more}
    ms = tuple(map(float, durations_ms))
    return Snapshot(Path("run"), Phase.ENDED, "train.py", 0, step_ms=ms, **known)


def by_name(snapshot: Snapshot) -> dict[str, Chart]:
    return {chart.name: chart for chart in charts_of(snapshot)}


def test_charts_of_steps_mark_slow_ones_and_count_every_one() -> None:
    chart = by_name(shown([100] * 18 + [150, 400]))["step"]
    assert dict(chart.levels) == {"p50": 100 * MS, "p95": 150 * MS}
    words, marked = chart.marked
    assert words == "2 slow steps (from 1.5x p50)"
    assert np.flatnonzero(marked).tolist() == [18, 19]
    chart = by_name(shown([100] * 90 + [110] * 9 + [5000]))["distribution"]
    assert chart.lines[0].values.sum() == 100
    assert "1 longer than" in chart.note
    assert chart.lines[0].values[-1] == 1
    # Throughput is steps over time.
    chart = by_name(shown([100] * 50 + [200] * 50))["throughput"]
    rates = chart.lines[0].values
    assert dict(chart.levels)["mean"] == pytest.approx(100 / 15)
    assert rates[1] == pytest.approx(10, rel=0.2)
    assert rates[-2] == pytest.approx(5, rel=0.2)
    stretch = 15 / len(rates)
    assert sum(rates) * stretch == pytest.approx(100)
    # What is kept as sums is said.
    chart = by_name(shown([100] * 10, train_steps=1010))["step"]
    assert chart.note == "1,000 steps in between are stored as aggregates, not drawn"


def test_phases_on_the_gpu_are_those_of_the_steps_that_were_timed() -> None:
    def with_times(*timed: int) -> Snapshot:
        table = GrowingTable(STEP_COLUMNS, floats=False, text=("kind",))
        for number in range(6):
            known = {"device_forward": 3 * MS, "device_backward": 5 * MS, "device_optimizer": MS}
            row = step_row(number, [0, 0, MS, 0, 0, 0, 0], **known if number in timed else {})
            table.extend([row])
        return Snapshot(Path("run"), Phase.ENDED, "train.py", 0, train=table.freeze())

    chart = by_name(with_times(1, 4))["device"]
    assert list(chart.x) == [1, 4]
    lines = {line.label: list(line.values) for line in chart.lines}
    assert lines == {"forward": [3 * MS] * 2, "backward": [5 * MS] * 2, "optimizer": [MS] * 2}
    assert chart.note == "4 steps in between were not timed on the GPU"
    assert "device" not in by_name(with_times())


def test_nothing_to_study_is_no_chart() -> None:
    assert charts_of(Snapshot(Path("run"), Phase.STARTING, "train.py", 0)) == ()


@given(st.integers(0, 3 * MOST_POINTS), st.integers(0, 2**32 - 1))
def test_thinning_keeps_the_extremes_and_the_order(count: int, seed: int) -> None:
    y = np.random.default_rng(seed).normal(size=count)
    x = np.arange(count, dtype=np.float64)
    kept_x, kept_y = downsampled(x, y)
    assert len(kept_x) <= MOST_POINTS
    assert (np.diff(kept_x) > 0).all()
    assert (y[kept_x.astype(int)] == kept_y).all()
    if count:
        assert kept_y.max() == y.max()
        assert kept_y.min() == y.min()


def test_the_meter_marks_the_columns_of_slow_steps() -> None:
    meter = step_time(shown([100] * 10 + [300] + [100] * 9))
    assert "! 1 slow (from 1.5x the median)" in meter.notes
    top = plain(draw_chart(meter, 26, 6)[0])
    assert top.count(MARK) == 1
    # Twenty steps over all twenty cells.
    assert top[6:].index(MARK) == 10
    assert MARK not in plain(draw_chart(step_time(shown([100] * 20)), 26, 6)[0])


@pytest.mark.parametrize(
    ("screens", "unwanted"),
    [(("overview",), ("plotext", "numpy")), (("memory", "ranks", "runs"), ("plotext",))],
)
def test_what_takes_long_is_imported_when_it_is_needed(
    screens: tuple[str, ...], unwanted: tuple[str, ...]
) -> None:
    modules = ", ".join(f"perftui_tui.screens.{screen}" for screen in screens)
    code = (
        f"import sys, perftui_tui.app, {modules}\nassert not set({unwanted!r}) & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
@pytest.mark.keys("app.study", "app.study.change(1)", "app.study.change(-1)", "app.study.close")
async def test_it_opens_changes_closes_and_begins_with_what_is_on_screen(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path, gpu=True)) as (app, pilot):
        await press(pilot, "C", until="1 of 12")
        assert app.screen.chart.name == "step"
        await pilot.press("n", "n")
        assert app.screen.chart.name == "throughput"
        await pilot.press("N", "up", "up")
        assert app.screen.chart.name == charts_of(app.snapshot)[-1].name
        await pilot.press("n", "down")
        assert app.screen.chart.name == "distribution"
        await until_shown(pilot, "Distribution of step times")
        await close(pilot)
        for pane, name in (("#meter-cpu", "cpu"), ("#meter-gpu", "gpu"), ("#step-bar", "parts")):
            await pilot.click(pane)
            await until(pilot, lambda: isinstance(app.screen, ChartScreen), name)
            assert app.screen.chart.name == name
            await close(pilot, key="q")
        assert app.is_running
        await press(pilot, "7", "C", until="GPU memory at the end of each step")
        await until_shown(pilot, "peak 31.0 GiB")
        assert "20.0 GiB" in text_of(app)


@pytest.mark.slow
@pytest.mark.keys(
    "app.study.cursor(1)", "app.study.cursor(-1)", "app.study.cursor(10)",
    "app.study.cursor(-10)", "app.study.edge(0)", "app.study.edge(1)", "app.study.zoom(1)",
    "app.study.zoom(-1)", "app.study.whole",
)  # fmt: skip
async def test_the_cursor_tells_exact_values_and_one_looks_closer_and_back(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        await press(pilot, "C", until="step 199  312 ms")
        await press(pilot, "home", until="step 0  1.20 s")
        await pilot.press("right", "shift+right")
        assert app.screen.at == 11
        await pilot.press("left", "shift+left")
        assert app.screen.at == 0
        await pilot.press("end")
        assert app.screen.at == 199
        await pilot.press("home", "plus", "plus")
        left, right = app.screen.view
        assert (left, round(right)) == (0, 50)
        await until_shown(pilot, "of 0 to 199")
        await pilot.press(*["shift+right"] * 8)
        left, right = app.screen.view
        assert left < 80 < right
        assert round(right - left) == 50
        await pilot.press("minus", "minus", "minus")
        assert app.screen.view == (0, 199)
        await pilot.press("plus", "0")
        assert app.screen.view == (0, 199)
        await pilot.press(*["plus"] * 30)
        left, right = app.screen.view
        assert 0 < right - left < 10
        # Half a step is none.
        lines = text_of(app).splitlines()
        scale = next(lines[at - 1] for at, line in enumerate(lines) if line.strip() == "step")
        assert scale.split()
        assert all(label.isdigit() for label in scale.split()), scale


async def test_a_click_in_the_chart_moves_the_cursor(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        await press(pilot, "C", until="step 199")
        plot = app.screen.query_one("#chart-plot")
        await pilot.click("#chart-plot", offset=(plot.size.width // 2, 10))
        assert 90 < app.screen.at < 110


async def test_before_any_step_or_sample_it_is_said(tmp_path: Path) -> None:
    root = write_run(tmp_path, steps=0)
    for path in root.glob("telemetry-*"):
        path.unlink()
    async with opened(root) as (app, pilot):
        await press(pilot, "C", until="nothing to chart yet")
        assert len(app.screen_stack) == 1


@pytest.mark.slow
async def test_in_ascii_a_chart_is_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowView, "ascii_only", True)
    async with opened(write_run(tmp_path, gpu=True)) as (app, pilot):
        await press(pilot, "C", until="step 199")
        for _ in range(12):
            odd = {character for character in text_of(app) if ord(character) > 126}
            # The footer spells two keys as the arrows that are printed on them.
            assert odd <= set("→←")
            await pilot.press("n")


@pytest.mark.parametrize("columns", [60, 80, 120])
async def test_a_narrow_chart_keeps_whole_facts_and_the_way_out(
    tmp_path: Path, columns: int
) -> None:
    async with opened(write_run(tmp_path), (columns, 24)) as (app, pilot):
        await press(pilot, "C", until=" 1 of ")
        await until(pilot, lambda: text_of(app).rstrip().endswith("esc Close"), "the way out")
        title, *_, foot = text_of(app).splitlines()
        assert len(foot) == columns
        chart = charts_of(app.snapshot)[0]
        known = ["p50 310 ms", "p95 316 ms", f"x {chart.marked[0]}", chart.note]
        name, place, *facts = (fact for fact in title.rstrip().split("   ") if fact)
        assert (name.strip(), place[:4]) == ("Step time", "1 of")
        assert facts == known[: len(facts)]
        assert facts
