"""Whether a run is slower than earlier ones, and since which: never by noise, always by 20 %."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.experiments.history import FEWEST_RUNS, Level, Standing, levels
from perftui.experiments.trial_verdict import NOISE_MANY
from tests.core.diagnosis.runs import MS


def of(*ms: float, noise: float = NOISE_MANY) -> list[Level]:
    return levels([round(one * MS) for one in ms], [noise] * len(ms))


def places(*ms: float) -> list[Standing]:
    return [one.place for one in of(*ms)]


FIVE = (40, 41, 39, 40, 40)


def test_nothing_is_said_before_there_are_runs_enough() -> None:
    assert places(*FIVE) == [Standing.UNKNOWN] * FEWEST_RUNS
    assert places(*FIVE, 80)[-1] is Standing.SLOWER


@pytest.mark.parametrize(
    ("ms", "place"),
    [
        (42.3, Standing.USUAL),
        (42.5, Standing.SLOWER),
        (37.8, Standing.USUAL),
        (37.6, Standing.FASTER),
    ],
)
def test_a_run_has_to_be_beyond_what_equal_runs_differ_by(ms: float, place: Standing) -> None:
    found = of(*FIVE, ms)[-1]
    assert found.place is place
    assert found.usual_ns == pytest.approx(40 * MS)
    assert found.noise == pytest.approx(NOISE_MANY)


def test_runs_that_differ_much_widen_the_noise() -> None:
    found = of(40, 44, 36, 42, 38, 49)[-1]
    assert found.place is Standing.USUAL
    assert found.noise == pytest.approx(0.24, abs=0.02)


def test_the_oldest_of_the_newest_interval_is_named() -> None:
    found = of(*FIVE, 50, 40, 40, 47, 42, 48)
    assert [one.since for one in found[5:]] == [5, None, None, 8, 8, 8]
    assert found[-1].usual_ns == pytest.approx(40 * MS)


def test_a_slow_first_run_is_not_what_is_usual() -> None:
    found = of(90, *FIVE, 47)[-1]
    assert (found.place, found.since) == (Standing.SLOWER, 6)


def test_a_faster_level_that_lasts_is_what_is_usual() -> None:
    faster = [30] * FEWEST_RUNS
    assert places(*FIVE, *faster[1:], 40)[-1] is Standing.USUAL
    assert places(*FIVE, *faster, 34)[-1] is Standing.SLOWER


@given(st.lists(st.integers(MS, 1000 * MS), max_size=14), st.integers(2, 50))
def test_the_unit_of_the_steps_changes_nothing(steps: list[int], times: int) -> None:
    floors = [NOISE_MANY] * len(steps)
    there, again = levels(steps, floors), levels([times * one for one in steps], floors)
    assert [(one.place, one.since) for one in there] == [(one.place, one.since) for one in again]


@given(st.lists(st.integers(MS, 1000 * MS), max_size=14))
def test_later_runs_change_nothing_of_earlier_ones(steps: list[int]) -> None:
    floors = [NOISE_MANY] * len(steps)
    whole = levels(steps, floors)
    for count in range(len(steps)):
        assert levels(steps[:count], floors[:count]) == whole[:count]


def series(source: random.Random, runs: int, slower: float, last: int) -> Sequence[int]:
    """Runs of which 95 % of any two differ by less than 6 %, the ``last`` ones slower."""
    steps = [100 * MS * source.lognormvariate(0, 0.0206) for _ in range(runs)]
    return [round(one * (1 + slower if at >= runs - last else 1)) for at, one in enumerate(steps)]


@pytest.mark.parametrize(
    ("slower", "last", "least", "most"),
    [(0, 1, 0, 0.01), (0.1, 1, 0.8, 1), (0.1, 3, 0.85, 1), (0.2, 1, 0.98, 1)],
)
def test_noise_is_no_alarm_and_slower_runs_are_found(slower, last, least, most) -> None:
    """At the latest with the ``last`` of so many slower runs: each is checked."""
    source = random.Random(20261128)  # noqa: S311 - no secret
    trials = 1500
    found = 0
    for trial in range(trials):
        runs = FEWEST_RUNS + 1 + trial % 10 + last
        steps = series(source, runs, slower, last)
        newest = levels(steps, [NOISE_MANY] * runs)[-last:]
        found += any(one.place is Standing.SLOWER for one in newest)
    assert least <= found / trials <= most
