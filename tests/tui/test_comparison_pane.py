"""Two runs side by side: the figures, the distributions, each step."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App

from perftui.experiments.comparison import compare
from perftui.experiments.journal import Proof
from perftui.experiments.trial_verdict import Outcome
from perftui.facts.fact import Facts
from perftui.run.reader import RunReader
from perftui_tui.charts.run_charts import comparison_charts
from perftui_tui.dialogs.chart import ChartScreen
from perftui_tui.look.format import format_ns, milliseconds, per_second
from perftui_tui.look.rows import plain
from perftui_tui.look.themes import DEFAULT_THEME, THEMES
from perftui_tui.panes.experiments import earlier_rows
from perftui_tui.screens.compare.figures import Line, StepHistogram, _line, comparison, histogram
from tests.tui.driving import close, opened, press, text_of, until, until_shown
from tests.tui.recorded import MS, write_run
from tests.tui.test_run_charts import shown


def test_what_pairs_of_runs_came_to_counts_for_more(tmp_path: Path) -> None:
    runs = [Facts(RunReader(write_run(tmp_path / name)).poll()) for name in ("one", "other")]
    said = "2.00x faster (1.90 to 2.10)"
    proof = Proof("loader-workers", "num_workers 0 -> 4", Outcome.FASTER, said, (), 1, 2.0)
    lines = [plain(line).rstrip() for line in comparison(compare(*runs), 80, proof)]
    assert lines[:3] == [
        "num_workers 0 -> 4: 2.00x faster (1.90 to 2.10) by pairs of runs",
        "These two runs alone say:",
        " NO CLEAR DIFFERENCE",
    ]
    assert plain(comparison(compare(*runs), 80)[0]).rstrip() == " NO CLEAR DIFFERENCE"


def drawn(line: Line) -> str:
    return plain(_line(line, 100, judges=True))


def test_a_change_is_judged_as_far_as_it_matters() -> None:
    text = drawn(Line("loader start", 30_000, 700_000, format_ns, matters=False))
    assert text.split() == ["loader", "start", "30.0", "µs", "700", "µs", "+670", "µs"]
    text = drawn(Line("data loader wait", 100 * MS, 50 * MS, format_ns))
    assert "-50 %" in text
    assert "better" in text
    assert "█" in text
    # Many times more is said in its own unit.
    text = drawn(Line("loader start", MS, 24 * MS, format_ns))
    assert "%" not in text
    assert "+23.0 ms" in text
    assert "worse" in text
    assert drawn(Line("other", MS, MS, format_ns, matters=False)).endswith("1.00 ms         ")
    text = drawn(Line("steps/s", 999.4, 1234.0, per_second, lower_is_better=False))
    assert text.split()[1:3] == ["999", "1,234"]
    text = plain(_line(Line("data loader wait", 100 * MS, 2 * MS, format_ns), 100, judges=False))
    assert text.endswith("-98 %")


def test_a_short_part_is_not_said_to_take_no_time() -> None:
    assert [milliseconds(ns) for ns in (0, 4_999, 5_000, 30_000)] == [
        "0.00",
        "<0.01",
        "0.01",
        "0.03",
    ]


def test_earlier_trials_are_a_row_each_below_the_newest() -> None:
    proofs = {
        name: Proof(name, name.upper(), Outcome.FASTER, f"{at}.00x faster", (), at * 60 * 10**9)
        for at, name in enumerate(("first", "second", "third"), 2)
    }
    rows = [plain(line) for line in earlier_rows(proofs, 80)]
    assert [line[18:] for line in rows[1:]] == ["SECOND   3.00x faster", "FIRST   2.00x faster"]
    assert rows[0] == "Earlier trials of this run"
    assert earlier_rows({"third": proofs["third"]}, 80) == []


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


@pytest.mark.slow
async def test_compare_opens_both_and_follows_the_exchange(tmp_path: Path) -> None:
    before = write_run(tmp_path, wait_ms=200, steps=240)
    run_id = "20231114-231320-train"
    async with opened(write_run(tmp_path, run_id=run_id, parent=before.name)) as (app, pilot):
        await press(pilot, "5", until="FASTER")
        await pilot.press("C")
        await until(pilot, lambda: isinstance(app.screen, ChartScreen), "the chart")
        await until_shown(pilot, "before p50 392 ms   after p50 310 ms")
        await press(pilot, "n", "end", until="Each step of both runs")
        await until_shown(pilot, "step 239  before 388 ms   after –")
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
        yield StepHistogram()

    def on_mount(self):
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DEFAULT_THEME


async def plotted(before, after):
    app = Host()
    async with app.run_test(size=(72, 18)) as pilot:
        plot = app.query_one(StepHistogram)
        plot.show(before, after)
        await pilot.pause()
        return str(plot.render())


QUICK, SLOW = [20.0 + at % 5 for at in range(100)], [50.0 + at % 5 for at in range(100)]


async def test_runs_are_told_apart_without_colour_and_ticks_are_round():
    text = await plotted(SLOW, QUICK)
    assert "•• before" in text
    assert "•• after" not in text
    axis = (await plotted(SLOW, QUICK)).splitlines()[-2]
    assert axis.split() == ["0", "10", "20", "30", "40", "50"]
    # Steps that take no time are drawn, too.
    assert "after" in await plotted([0.0, 0.0], QUICK)
    assert "before" in await plotted([0.0, 0.0], [0.0])


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0, 300.0]])
def test_shares_sum_to_the_whole(values):
    assert sum(histogram(values, 10.0)[1]) == pytest.approx(100)
