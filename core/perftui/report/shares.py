"""Rounds parts of a whole so that what is shown still sums to it."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.facts.rounding import whole_quotients


def apportioned(values: Sequence[int], units: int) -> list[int]:
    """``units`` shared out in proportion to ``values`` (>= 0), by largest remainder.

    The result sums to ``units`` exactly, unless all values are 0.
    """
    whole = sum(values)
    return (
        whole_quotients([value * units for value in values], whole) if whole else [0] * len(values)
    )
