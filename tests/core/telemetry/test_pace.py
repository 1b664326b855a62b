"""How often what costs much is read."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.telemetry.source import Pace, Rates


def test_readings_are_some_seconds_apart_and_dear_ones_further() -> None:
    pace = Pace(3.0, 0.01)
    assert pace.is_due(100.0)
    pace.spent(100.0, 0.001)
    assert not pace.is_due(102.9)
    assert pace.is_due(103.0)
    pace.spent(103.0, 0.2)
    assert not pace.is_due(122.9)
    assert pace.is_due(123.0)


def test_one_dear_reading_now_and_then_delays_no_other() -> None:
    pace = Pace(0.5, 0.01, ahead=5.0)
    for turn in range(10):
        assert pace.is_due(0.5 * turn)
        pace.spent(0.5 * turn, 0.03 if turn == 2 else 0.001)


def test_what_a_reading_computes_is_its_cost() -> None:
    pace = Pace(0.0, 1e-6)
    with pace.reading(1.0):
        sum(range(100_000))
    assert not pace.is_due(2.0)


def test_a_reading_that_fails_has_cost_as_well() -> None:
    pace = Pace(5.0, 0.01)
    with pytest.raises(ValueError, match="broken"), pace.reading(1.0):
        raise ValueError("broken")
    assert not pace.is_due(2.0)


@pytest.mark.slow
@given(
    costs=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=200),
    every=st.floats(0.01, 10.0),
    share=st.floats(0.001, 1.0),
    ahead=st.floats(0.0, 10.0),
)
def test_the_share_is_kept_whatever_readings_cost(
    costs: list[float], every: float, share: float, ahead: float
) -> None:
    pace, now, spent = Pace(every, share, ahead), 0.0, 0.0
    for cost in costs:
        while not pace.is_due(now):
            now += every
        # All before this one is paid for, but for what may be left for later.
        assert spent <= share * (now + ahead) + 1e-6
        pace.spent(now, cost)
        spent += cost


@pytest.mark.slow
@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 1000), max_size=3), min_size=2)
)
def test_a_counter_that_comes_goes_or_begins_anew_makes_no_jump(
    readings: list[dict[str, int]],
) -> None:
    rates = Rates()
    assert rates.update(readings[0], 0) is None
    for number, (before, after) in enumerate(pairwise(readings), 1):
        changes = [after[k] - before[k] for k in after if k in before and after[k] >= before[k]]
        expected = sum(changes) / 2 if changes else None
        assert rates.update(after, 2 * number) == expected
