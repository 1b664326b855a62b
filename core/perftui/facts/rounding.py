"""Integers in place of fractions that keep the sum right."""

from __future__ import annotations

from collections.abc import Sequence


def whole_quotients(numerators: Sequence[int], denominator: int) -> list[int]:
    """Each of ``numerators`` (>= 0) over ``denominator`` (> 0), rounded to integers.

    Uses the largest-remainder (Hamilton) method: each is off by less than one, and together they
    are the quotient of the sum, rounded down.
    """
    quotients = [numerator // denominator for numerator in numerators]
    missing = sum(numerators) // denominator - sum(quotients)
    order = sorted(range(len(numerators)), key=lambda at: (-(numerators[at] % denominator), at))
    for at in order[:missing]:
        quotients[at] += 1
    return quotients


def apportioned(values: Sequence[int], units: int) -> list[int]:
    """``units`` shared out in proportion to ``values`` (>= 0), by largest remainder.

    The result sums to ``units`` exactly, unless all values are 0.
    """
    whole = sum(values)
    return whole_quotients([value * units for value in values], whole) if whole else list(values)
