"""Two runs in one chart: the same scale for both, and every step counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.charts.run_charts import comparison_charts
from perftui_tui.dialogs.chart import ChartScreen
from tests.tui.driving import opened, press, text_of, until, until_shown
from tests.tui.recorded import write_run
from tests.tui.test_run_charts import MS, shown

durations = st.lists(st.integers(1, 10_000), min_size=1, max_size=60)


@given(durations, durations)
def test_every_step_of_both_is_counted_on_one_scale(before: list[int], after: list[int]) -> None:
    spread, each = comparison_charts(shown(before), shown(after))
    for line in spread.lines:
        assert float(line.values.sum()) == pytest.approx(100)
    for line, given_ms in zip(each.lines, (before, after), strict=True):
        assert line.values[: len(given_ms)].tolist() == [ms * MS for ms in given_ms]
        assert np.isnan(line.values[len(given_ms) :]).all()


def test_what_lies_far_above_is_in_the_last_bar_and_said() -> None:
    spread, _ = comparison_charts(shown([100] * 95 + [9000]), shown([50] * 20))
    assert spread.note == "1 before and 0 after exceed 105 ms, in the last bar"
    assert dict(spread.levels) == {"before p50": 100 * MS, "after p50": 50 * MS}


def test_a_run_without_steps_is_not_compared() -> None:
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
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1, "the chart closed")
        await press(pilot, "s", "C", until="before p50 310 ms   after p50 392 ms")


async def test_alone_there_is_no_empty_chart(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        await press(pilot, "5", until="Nothing to compare with yet")
        assert "Before and after" in text_of(app).splitlines()[2]
        assert "Step times" not in text_of(app)
        await press(pilot, "C", until=" Step time ")
