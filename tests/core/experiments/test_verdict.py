"""Verdicts: of the pairs of a trial, and of a run against those before it."""

import math
import random
from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import inf, nan
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.experiments.history import FEWEST_RUNS, Level, Standing, levels
from perftui.experiments.trial_verdict import (
    LOOKS,
    NOISE_MANY,
    Agreement,
    Outcome,
    check_losses,
    estimate,
    is_tested,
    judge,
    next_look,
)
from perftui.fixes.option import Risk
from tests.core.diagnosis.runs import MS

LOGS = st.floats(-0.7, 0.7, allow_nan=False).filter(lambda one: abs(one) > 1e-6)


def ratios(look: int) -> st.SearchStrategy[list[float]]:
    return st.lists(LOGS, min_size=look, max_size=look, unique_by=abs)


@pytest.mark.slow
@pytest.mark.parametrize(("pairs", "outermost"), LOOKS)
def test_the_interval_leaves_1_out_where_wilcoxon_says_so(pairs: int, outermost: int) -> None:
    @given(ratios(pairs))
    def as_by_ranks(logs: list[float]) -> None:
        by_size = sorted(logs, key=abs)
        against = sum(rank for rank, one in enumerate(by_size, 1) if one < 0)
        found = estimate([math.exp(one) for one in logs])
        assert (found.low > 1) is (against < outermost)

    as_by_ranks()


@given(ratios(9))
def test_the_ratio_is_the_middle_of_all_means_of_two(logs: list[float]) -> None:
    found = estimate([math.exp(one) for one in logs])
    means = [(one + other) / 2 for one, other in combinations_with_replacement(logs, 2)]
    assert math.log(found.ratio) == pytest.approx(median(means), abs=1e-9)
    assert found.low <= found.ratio <= found.high


@given(ratios(6))
def test_turned_around_it_is_as_much_slower(logs: list[float]) -> None:
    one, other = (estimate([math.exp(sign * log) for log in logs]) for sign in (1, -1))
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert (other.low, other.high) == (pytest.approx(1 / one.high), pytest.approx(1 / one.low))


def test_only_a_look_has_an_interval_of_confidence() -> None:
    assert [is_tested(pairs) for pairs in (3, 5, 6, 14)] == [False, False, True, True]


def test_between_looks_nothing_changes() -> None:
    assert estimate([1.5] * 5) is None
    assert estimate([1.5] * 6 + [0.1, 0.1]) == estimate([1.5] * 6)
    assert [next_look(pairs) for pairs in (0, 6, 8, 9, 14)] == [6, 9, 9, 14, None]


@pytest.mark.parametrize(
    ("ratio", "spread", "pairs", "outcome", "headline"),
    [
        (2.1, 0.1, 6, Outcome.FASTER, "2.10x faster (2.00 to 2.20)"),
        (0.5, 0.01, 6, Outcome.SLOWER, "2.00x slower (1.96 to 2.04)"),
        (1.0, 0.01, 6, Outcome.NO_DIFFERENCE, "no difference (0.99 to 1.01)"),
        (1.05, 0.1, 6, Outcome.INCONCLUSIVE,
         "1.05x so far, unclear (0.95 to 1.15): 3 more pairs needed"),
        (1.1, 0.05, 6, Outcome.FASTER, "1.10x faster (1.05 to 1.15)"),
        (1.05, 0.1, 14, Outcome.INCONCLUSIVE, "1.05x faster (1.00 to 1.10), not certain"),
        (1.0, 0.08, 14, Outcome.NO_DIFFERENCE, "no difference beyond 4.5 % (0.96 to 1.04)"),
        (1.0, 0.08, 9, Outcome.INCONCLUSIVE,
         "1.00x so far, unclear (0.94 to 1.06): 5 more pairs needed"),
        (1.06, 0.04, 14, Outcome.FASTER, "1.06x faster (1.04 to 1.08)"),
        (2.0, 0.1, 4, Outcome.INCONCLUSIVE, "2.00x faster so far: 2 more pairs needed"),
        (1.1, 0.4, 3, Outcome.INCONCLUSIVE,
         "1.10x so far, unclear (pairs 0.70 to 1.50): 3 more pairs needed"),
        (9.5, 0.3, 2, Outcome.INCONCLUSIVE, "9.50x faster so far: 4 more pairs needed"),
        (9.5, 0.3, 3, Outcome.FASTER, "at least 6.57x faster, likely 9.50x (up to 13.72x)"),
        (0.2, 0.02, 3, Outcome.SLOWER, "at least 3.25x slower, likely 5.00x (up to 7.78x)"),
        (3.0, 0.1, 3, Outcome.INCONCLUSIVE, "3.00x faster so far: 3 more pairs needed"),
    ],
)  # fmt: skip
def test_what_is_said(
    ratio: float, spread: float, pairs: int, outcome: Outcome, headline: str
) -> None:
    said = judge([ratio + spread * (2 * at / (pairs - 1) - 1) for at in range(pairs)])
    assert (said.outcome, said.while_running) == (outcome, headline)


def test_an_unclear_result_says_that_runs_were_disturbed() -> None:
    said = judge([1.0, 1.02, 1.05, 1.08, 1.1, 1.04], disturbed=True).headline
    assert said == "1.05x so far, unclear (1.00 to 1.10), the runs were disturbed"
    assert judge([1.5]).headline == "1.50x so far, unclear"
    assert "disturbed" not in judge([2.0, 2.1, 2.2, 2.3, 2.05, 2.15], disturbed=True).headline


def test_a_wide_interval_says_first_what_is_certain() -> None:
    pairs = [1.1, 2.0, 3.5, 4.0, 9.0, 12.0]
    said = judge(pairs)
    assert said.headline == "at least 1.10x faster, likely 3.74x (up to 12.00x)"
    assert "a quieter machine narrows it" in said.notes[0]
    assert "few pairs make it plain" in judge([6.1, 6.6, 7.1, 6.9]).notes[0]
    turned = judge([1 / one for one in pairs])
    assert turned.headline == "at least 1.10x slower, likely 3.74x (up to 12.00x)"
    assert not judge([2.0, 2.1, 2.2, 2.3, 2.05, 2.15]).notes
    assert not judge([0.1, 0.3, 1.1, 2.0, 4.0, 9.0]).notes


def test_a_gain_within_what_the_machine_does_by_itself_is_none() -> None:
    pairs = [1.04, 1.05, 1.06, 1.045, 1.055, 1.05]
    assert judge(pairs).outcome is Outcome.FASTER
    # The mean of six pairs is off by less than two runs are.
    assert judge(pairs, floor=0.05).outcome is Outcome.FASTER
    assert judge(pairs, floor=0.12).outcome is Outcome.INCONCLUSIVE
    assert judge([1 / one for one in pairs]).outcome is Outcome.SLOWER


LOSSES = (2.0, 1.5, 1.25)


def apart(*shares: float) -> tuple[float, ...]:
    """Losses so far from 2."""
    return tuple(2.0 * (1 + share) for share in shares)


LEVEL = apart(*[0.0] * 7)


def off(share: float) -> tuple[float, ...]:
    return (*LOSSES[:2], LOSSES[2] * (1 + share))


@pytest.mark.parametrize(
    ("before", "after", "risks", "agreement", "sentence"),
    [
        ([LOSSES] * 2, [LOSSES] * 2, (), "same", "the first 3 losses are the same"),
        ([LOSSES], [off(5e-7)], (), "same", "the first 3 losses are the same"),
        ([LOSSES] * 2, [off(0.01)], (), "differ",
         "losses differ: loss 3 is 1.25 before and 1.2625 after"),
        ([LOSSES] * 2, [off(0.01)], [Risk.NUMERICS], "rounded",
         "losses differ by rounding: loss 3 is 1.25 before and 1.2625 after"),
        ([LOSSES] * 2, [off(0.1)], [Risk.NUMERICS], "differ", "losses differ: "),
        # Rounding grows with each step; what another computation changes shows at once.
        ([LEVEL] * 2, [apart(0, 1e-6, 1e-5, 1e-4, 5e-4, 0.02, 0.08)], [Risk.NUMERICS], "rounded",
         "losses differ by rounding: loss 7 is 2 before and 2.16 after"),
        ([LEVEL] * 2, [apart(0, 0.01, 0, 0, 0, 0, 0.08)], [Risk.NUMERICS], "differ", "losses"),
        ([LEVEL] * 2, [apart(0, 0, 0, 0, 0, 0.02, 0.2)], [Risk.NUMERICS], "differ", "losses"),
        ([LEVEL] * 2, [apart(0, 1e-6, 1e-5, 1e-4, 5e-4, 0.01, 0.08)], (), "differ", "losses"),
        ([LOSSES] * 2, [off(0.1)], [Risk.RANDOMNESS], "not checked",
         "losses not checked, since the fix may"),
        ([LOSSES, off(0.1)], [off(0.1)], (), "not checked", "losses not checked: they also differ"),
        # As far apart as two runs of the same are.
        ([LOSSES, off(0.01)], [off(0.01)], (), "same", "the first 3"),
        ([LOSSES], [(2.0, nan, nan)], [Risk.RANDOMNESS], "differ", "a loss is not finite"),
        ([LOSSES], [(2.0, inf, 1.0)], (), "differ", "a loss is not finite"),
        ([(0.0, 0.0)], [(0.0, 0.0)], (), "same", "the first 2"),
        ([LOSSES], [off(0.1)], (), "not checked", "losses not checked: one run does not"),
        ([()], [LOSSES], (), "not checked", "losses not checked: none were recorded"),
        ([], [], (), "not checked", "losses not checked: none were recorded"),
        ([LOSSES], [LOSSES[:2]], (), "same", "the first 2 losses"),
    ],
)  # fmt: skip
def test_what_is_said_of_losses(
    before: Sequence[Sequence[float]],
    after: Sequence[Sequence[float]],
    risks: Sequence[Risk],
    agreement: str,
    sentence: str,
) -> None:
    said = check_losses(before, after, risks)
    assert said.agreement is Agreement(agreement)
    assert said.sentence.startswith(sentence)


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


def test_runs_that_differ_much_widen_the_noise_and_the_oldest_slower_one_is_named() -> None:
    found = of(40, 44, 36, 42, 38, 49)[-1]
    assert found.place is Standing.USUAL
    assert found.noise == pytest.approx(0.24, abs=0.02)
    found = of(*FIVE, 50, 40, 40, 47, 42, 48)
    assert [one.since for one in found[5:]] == [5, None, None, 8, 8, 8]
    assert found[-1].usual_ns == pytest.approx(40 * MS)


def test_a_slow_first_run_is_not_what_is_usual_and_a_faster_level_that_lasts_is() -> None:
    found = of(90, *FIVE, 47)[-1]
    assert (found.place, found.since) == (Standing.SLOWER, 6)
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
        newest = levels(series(source, runs, slower, last), [NOISE_MANY] * runs)[-last:]
        found += any(one.place is Standing.SLOWER for one in newest)
    assert least <= found / trials <= most
