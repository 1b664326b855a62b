"""The chart of step times: slow steps are marked, and one long step flattens nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perftui.report.html.page import environment
from perftui.report.html.step_chart import HEIGHT, MOST_DOTS, MOST_SLOW, StepTimes
from tests.core.report.html.pages import Node, read

MS = 1_000_000


def times(*milliseconds: float, aside: int = 0) -> StepTimes:
    """Steps that took so long; the first ``aside`` of them are warm-up."""
    duration = np.array([round(one * MS) for one in milliseconds], dtype=np.int64)
    index = np.arange(len(duration))
    return StepTimes(index, duration, index >= aside)


def chart(found: StepTimes) -> Node:
    return read(environment().get_template("parts.html").module.step_chart(found))


def test_a_first_step_of_a_hundred_times_the_usual_flattens_nothing() -> None:
    found = times(2000, *([20] * 30), aside=1)
    assert found.top < 40 * MS
    page = chart(found)
    assert "1 step lies above the chart; the longest is step 0 with 2.0 s." in page.text
    (first,) = page.every("path", "aside")
    assert first.text == "step 0, 2.0 s, warm-up or profiled"
    assert down(first) == 0


def test_slow_steps_are_marked_with_their_times() -> None:
    page = chart(times(*([20] * 15), 45, *([20] * 15)))
    (slow,) = page.every("path", "slow")
    assert slow.text == "step 15, 45 ms, slow"
    assert "31 steady steps, median 20 ms, 1 slow (over 30 ms)." in page.text
    assert len(list(page.every("path", "steady"))) == 30


def test_even_steps_have_no_slow_ones() -> None:
    page = chart(times(*([20] * 30)))
    assert not list(page.every("path", "slow"))
    assert "none slow" in page.text


def test_many_steps_share_columns_but_slow_ones_are_still_marked() -> None:
    page = chart(times(*([20] * 5_000), *([90] * 3), *([20] * 5_000)))
    assert len(list(page.every("path", "slow"))) == 3
    assert len(list(page.every("path"))) < 10
    assert page.only("path", "range").attributes["d"].count("M") == MOST_DOTS


@given(st.lists(st.integers(1, 10**12), min_size=3, max_size=400))
def test_any_steps_stay_within_the_chart(durations: list[int]) -> None:
    column = np.array(durations, dtype=np.int64)
    index = np.arange(len(column))
    found = StepTimes(index, column, index >= 0)
    page = chart(found)
    assert int(found.slow.sum()) == sum(one > found.limit for one in durations)
    marked = list(page.every("path", "slow"))
    assert len(marked) == min(int(found.slow.sum()), MOST_SLOW)
    for dot in (*marked, *page.every("path", "steady")):
        assert 0 <= down(dot) <= HEIGHT


def down(dot: Node) -> float:
    return float(dot.attributes["d"].removeprefix("M").removesuffix("h0").split()[1])
