"""Charts: what they hold, and how one moves in them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App

from perftui.experiments.comparison import compare
from perftui.experiments.journal import Proof, write_proof
from perftui.experiments.trial_verdict import Outcome
from perftui.facts.fact import Facts
from perftui.run.columns import STEP_COLUMNS
from perftui.run.layout import trials_of, without_time
from perftui.run.reader import RunReader
from perftui.run.table import GrowingTable, Table
from perftui_tui.charts.run_charts import Chart, charts_of, comparison_charts
from perftui_tui.dialogs.chart import MOST_POINTS, ChartPlot, ChartScreen, downsampled
from perftui_tui.look.format import format_ns, part_of_step, per_second
from perftui_tui.look.rows import plain
from perftui_tui.look.themes import DEFAULT_THEME, THEMES
from perftui_tui.panes.machine import step_time
from perftui_tui.panes.meter import MARK, draw_chart
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.screens.compare.figures import Line, _line, comparison
from perftui_tui.widgets.row_view import RowView
from tests.step_rows import step_row
from tests.tui.driving import close, opened, press, text_of, until, until_shown
from tests.tui.recorded import MS, write_run


def shown(durations_ms: list[int], **more: object) -> Snapshot:
    """A run whose steps took so long, one after the other."""
    table = GrowingTable(STEP_COLUMNS, floats=False)
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
        table = GrowingTable(STEP_COLUMNS, floats=False)
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
@pytest.mark.keys(
    "app.study", "app.study.change(1)", "app.study.change(-1)", "app.study.close", "app.study.help"
)  # fmt: skip
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
        await press(pilot, "question_mark", until="Help: charts")
        await until_shown(pilot, "The previous chart")
        await press(pilot, "escape", until="Distribution of step times")
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
        await press(pilot, "C", until="step 199   312 ms")
        await press(pilot, "home", until="step 0   1.20 s")
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
        known = ["1 above 366 ms", "p50 310 ms", "p95 316 ms", f"x {chart.marked[0]}", chart.note]
        name, place, *facts = (fact for fact in title.rstrip().split("   ") if fact)
        assert (name.strip(), place[:4]) == ("Step time", "1 of")
        assert facts == known[: len(facts)]
        assert facts


def test_what_pairs_of_runs_came_to_counts_for_more(tmp_path: Path) -> None:
    title, said = "num_workers 0 -> 4", "2.00x faster (1.90 to 2.10)"
    roots = write_run(tmp_path / "runs"), write_run(tmp_path / "runs", run_id="b", name=title)
    sides = [Facts(RunReader(root).poll()) for root in roots]
    shown = plain(comparison(compare(*sides), 100)[0]).rstrip()
    assert shown == "no clear difference (1.00x)"
    proof = Proof("loader-workers", title, Outcome.FASTER, said, (), 1, 2.0, notes=("rounded",))
    write_proof(proof, trials_of(roots[0]))
    lines = [plain(line).rstrip() for line in comparison(compare(*sides), 100)]
    assert lines[:3] == [
        f"{title}: {said} by pairs of runs",
        f"these two runs, one each and at different times: {shown}",
        "rounded",
    ]


def test_what_changed_stands_first_and_of_two_ratios_the_one_that_counts(tmp_path: Path) -> None:
    before = write_run(tmp_path / "before", wait_ms=200)
    sides = [Facts(RunReader(one).poll()) for one in (before, write_run(tmp_path / "after"))]
    shown = [plain(line).split() for line in comparison(compare(*sides), 100)]
    names = [" ".join(line[:2]) for line in shown]
    at = names.index("step mean")
    assert names[at : at + 5] == ["step mean", "step p50", "step p95", "data loader", "wait, p95"]
    assert shown[at][6:8] == ["-21", "%"]
    assert shown[at][8] == "1.26x"
    # Long steps move the mean, not the usual step.
    result = compare(*sides)
    first, second = result.steps
    longer = replace(second, mean=11 * second.mean // 10)
    ratio = first.mean / longer.mean
    result = replace(result, steps=(first, longer), speedup=ratio)
    told = [plain(line).rstrip() for line in comparison(result, 100) if "step " in plain(line)]
    assert f"{ratio:.2f}x  <- the verdict" in told[0]
    assert told[1].startswith("step mid 80 %")
    assert told[1].endswith("1.26x")
    assert "1.26x without the slowest and the fastest tenth" in result.basis


def drawn(line: Line) -> str:
    return plain(_line(line, judges=True))


def test_a_change_is_judged_as_far_as_it_matters() -> None:
    text = drawn(Line("loader start", 30_000, 700_000, format_ns, matters=False))
    assert text.split() == ["loader", "start", "30.0", "µs", "700", "µs", "23x"]
    text = drawn(Line("data loader wait", 100 * MS, 50 * MS, format_ns))
    assert "-50 %" in text
    assert "better" in text
    # Many times more is said as a ratio.
    text = drawn(Line("loader start", MS, 24 * MS, format_ns))
    assert "%" not in text
    assert "24x" in text
    assert "worse" in text
    text = drawn(Line("steps/s", 999.4, 1234.0, per_second, lower_is_better=False))
    assert text.split()[1:3] == ["999", "1,234"]
    text = plain(_line(Line("data loader wait", 100 * MS, 2 * MS, format_ns), judges=False))
    assert text.endswith("-98 %")


def test_a_short_part_is_not_said_to_take_no_time() -> None:
    assert [part_of_step(ns).removesuffix(" ms") for ns in (0, 4_999, 5_000, 30_000)] == [
        "0.00",
        "<0.01",
        "0.01",
        "0.03",
    ]


durations = st.lists(st.integers(1, 10_000), min_size=1, max_size=60)


@given(durations, durations)
def test_every_step_of_both_is_counted_on_one_scale(before: list[int], after: list[int]) -> None:
    spread, each = comparison_charts(shown(before), shown(after))
    for line in spread.lines:
        assert float(line.values.sum()) == pytest.approx(100)
    for line, given_ms in zip(each.lines, (before, after), strict=True):
        assert line.values[: len(given_ms)].tolist() == [ms * MS for ms in given_ms]
        assert np.isnan(line.values[len(given_ms) :]).all()


def test_what_lies_far_above_is_in_the_last_bar_and_a_run_without_steps_nowhere() -> None:
    spread, _ = comparison_charts(shown([100] * 95 + [9000]), shown([50] * 20))
    assert spread.note == "1 before and 0 after exceed 105 ms, in the last bar"
    assert dict(spread.levels) == {"before p50": 100 * MS, "after p50": 50 * MS}
    none = replace(shown([1]), train=None, step_ms=())
    assert comparison_charts(shown([100]), none) == ()
    assert comparison_charts(none, shown([100])) == ()


def test_beside_a_trace_a_run_is_the_steps_of_its_window() -> None:
    window = SimpleNamespace(steps=[SimpleNamespace(duration=30 * MS)] * 4)
    trace, run = shown([50] * 4), replace(shown([100] * 9), run=object(), analysis=window)
    for pair, ms in ((trace, run), [50, 30]), ((run, trace), [30, 50]), ((run, run), [100, 100]):
        spread, _ = comparison_charts(*pair)
        assert [level / MS for _, level in spread.levels] == ms


@pytest.mark.slow
async def test_compare_opens_both_and_follows_the_exchange(tmp_path: Path) -> None:
    before = write_run(tmp_path, wait_ms=200, steps=240)
    run_id = "20231114-231320-train"
    async with opened(write_run(tmp_path, run_id=run_id, parent=before.name)) as (app, pilot):
        await press(pilot, "5", until="x faster")
        title = next(line for line in text_of(app).splitlines() if " BEFORE " in line)
        assert f"{without_time(before.name)}   Mean step: 392 ms" in title
        await pilot.press("C")
        await until(pilot, lambda: isinstance(app.screen, ChartScreen), "the chart")
        await until_shown(pilot, "before p50 392 ms   after p50 310 ms")
        await press(pilot, "n", "end", until="Each step of both runs")
        await until_shown(pilot, "step 239   before 388 ms   after –")
        await press(pilot, "n", until=" Step time ")
        await close(pilot)
        await press(pilot, "s", "C", until="before p50 310 ms   after p50 392 ms")


async def test_alone_there_is_no_empty_chart(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        await press(pilot, "5", until="Nothing to compare with yet")
        assert "Before and after" in text_of(app).splitlines()[2]
        assert "Step times" not in text_of(app)
        await press(pilot, "C", until=" Step time ")


class Host(App):
    def compose(self):
        yield ChartPlot()

    def on_mount(self):
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = self.chosen

    def __init__(self, theme: str) -> None:
        super().__init__()
        self.chosen = theme


async def plotted(before, after, theme=DEFAULT_THEME):
    app = Host(theme)
    async with app.run_test(size=(72, 18)) as pilot:
        plot = app.query_one(ChartPlot)
        plot.show(comparison_charts(shown(before), shown(after))[0])
        await pilot.pause()
        return plot.render()


QUICK, SLOW = [20 + at % 5 for at in range(100)], [50 + at % 5 for at in range(100)]


async def test_runs_are_told_apart_without_colour_and_ticks_are_round():
    text = str(await plotted(SLOW, QUICK))
    assert "•• before" in text
    assert "•• after" not in text
    assert text.splitlines()[-2].split() == ["30.0", "ms", "40.0", "ms", "50.0", "ms"]
    # Steps that take no time are drawn, too.
    assert "after" in str(await plotted([0, 0], QUICK))
    assert "before" in str(await plotted([0, 0], [0]))


@pytest.mark.parametrize("theme", [theme.name for theme in THEMES])
async def test_nothing_of_a_chart_is_drawn_in_the_colour_of_its_ground(theme: str) -> None:
    text = await plotted(SLOW, QUICK, theme)
    grounds = {(str(style.color), str(style.bgcolor)) for style in (s.style for s in text.spans)}
    assert all(colour != ground for colour, ground in grounds if colour != "None"), grounds
