"""Rounded parts against their exact fractions."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.rounding import whole_quotients


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
