"""Rounded parts against their exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.rounding import whole_quotients
from perftui.facts.step.steps import run_breakdown
from perftui.run.aggregates import Weighed
from perftui.run.columns import PHASES, STEP_COLUMNS
from tests.step_rows import step_row, table_of

PHASE_TIMES = st.lists(st.integers(0, 10**10), min_size=len(PHASES), max_size=len(PHASES))


def steps(phases: list[list[int]], wrong_by: dict[int, int] | None = None):
    wrong = wrong_by or {}
    rows = [step_row(n, row, duration=sum(row) + wrong.get(n, 0)) for n, row in enumerate(phases)]
    return table_of(STEP_COLUMNS, rows)


@pytest.mark.slow
@given(st.lists(PHASE_TIMES, min_size=1, max_size=30))
def test_parts_sum_to_the_mean_step_and_are_the_means(rows) -> None:
    share = run_breakdown(steps(rows), np.ones(len(rows), dtype=bool))
    assert share is not None
    assert sum(part for _, part in share.parts) == share.mean
    assert share.mean == sum(map(sum, rows)) // len(rows)
    for at, (_, part) in enumerate(share.parts):
        assert abs(part - Fraction(sum(row[at] for row in rows), len(rows))) < 1


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(0, 100))
def test_a_quantile_is_the_smallest_value_that_enough_do_not_exceed(values, percent) -> None:
    enough = [
        v for v in sorted(values) if 100 * sum(x <= v for x in values) >= percent * len(values)
    ]
    assert Weighed(np.array(values)).nearest_rank(percent) == enough[0]


def test_the_mask_chooses_the_steps() -> None:
    rows = [[1_000, 0, 5, 0, 0, 0, 0], [10, 0, 5, 0, 0, 0, 0], [20, 0, 5, 0, 0, 0, 0]]
    share = run_breakdown(steps(rows), np.array([False, True, True]))
    assert share is not None
    assert (share.count, share.mean, share.part("input_wait"), share.p50) == (2, 20, 15, 15)
    assert share.steps_per_second == pytest.approx(5e7)


@pytest.mark.parametrize(
    ("durations", "usual"),
    [
        ([10] * 19 + [5_000], 10),
        ([10] * 18 + [1, 5_000], 10),
        ([30, 10] * 10, 20),
        ([10, 30], 20),
        ([7], 7),
    ],
)
def test_the_usual_step_leaves_extreme_ones_out_and_regular_waits_in(durations, usual) -> None:
    rows = [[duration, 0, 0, 0, 0, 0, 0] for duration in durations]
    share = run_breakdown(steps(rows), np.ones(len(rows), dtype=bool))
    assert share is not None
    assert share.usual == usual


def test_steps_whose_phases_do_not_sum_are_left_out_and_counted() -> None:
    row = [10, 0, 5, 5, 0, 0, 0]
    share = run_breakdown(steps([row, row, row], wrong_by={1: 7}), np.ones(3, dtype=bool))
    assert share is not None
    assert (share.count, share.inconsistent, share.mean) == (2, 1, 20)
    assert run_breakdown(steps([row], wrong_by={0: 1}), np.ones(1, dtype=bool)) is None


def test_no_steps_have_no_budget() -> None:
    assert run_breakdown(steps([]), np.zeros(0, dtype=bool)) is None
    assert run_breakdown(steps([[1] * 7]), np.zeros(1, dtype=bool)) is None


@given(st.lists(st.integers(0, 2**62), max_size=8), st.integers(1, 2**40))
def test_quotients_are_off_by_less_than_one_and_sum_to_the_whole(
    numerators: list[int], denominator: int
) -> None:
    quotients = whole_quotients(numerators, denominator)
    exact = [Fraction(numerator, denominator) for numerator in numerators]
    assert all(abs(q - e) < 1 for q, e in zip(quotients, exact, strict=True))
    assert sum(quotients) == sum(numerators) // denominator


def test_larger_remainders_are_rounded_up_first_and_of_equals_the_first() -> None:
    assert whole_quotients([14, 16, 10], 10) == [1, 2, 1]
    assert whole_quotients([15, 15, 10], 10) == [2, 1, 1]
