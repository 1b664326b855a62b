"""Rounds parts of a whole so that what is shown still sums to it."""

from __future__ import annotations

from collections.abc import Sequence


def apportioned(values: Sequence[int], units: int) -> list[int]:
    """``units`` shared out in proportion to ``values`` (>= 0), by largest remainder.

    The result sums to ``units`` exactly, unless all values are 0.
    """
    whole = sum(values)
    if not whole:
        return [0 for _ in values]
    shares = [value * units // whole for value in values]
    by_remainder = sorted(range(len(values)), key=lambda at: (-(values[at] * units % whole), at))
    for at in by_remainder[: units - sum(shares)]:
        shares[at] += 1
    return shares
