"""Columns of numbers of groups: exact integer sums and extremes by group, rows of some groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from perftui.trace.model import NONE, Int64, Ints

_FEW = 5
"""Numbers that are compared with one by one: a table of answers, asked by number, takes as long as
six comparisons (10 M rows)."""


def sums(group: Ints, values: Int64, groups: int) -> Int64:
    """Sum of ``values`` in each group. ``np.bincount`` would sum in floats."""
    result = np.zeros(groups, dtype=np.int64)
    np.add.at(result, group, values)
    return result


def first_longest(group: Ints, values: Int64, groups: int) -> Int64:
    """Index of the largest value of each group, the first of equals; NONE for an empty group."""
    largest = np.full(groups, np.iinfo(np.int64).min)
    np.maximum.at(largest, group, values)
    hits = np.flatnonzero(values == largest[group])[::-1]
    result = np.full(groups, NONE, dtype=np.int64)
    result[group[hits]] = hits
    return result


def numbered(column: Ints, accepted: Sequence[int], count: int) -> npt.NDArray[np.bool_]:
    """Which numbers of ``column``, all below ``count``, are ``accepted``."""
    if len(accepted) > _FEW:
        table = np.zeros(count, dtype=bool)
        table[accepted] = True
        # As ``table[column]``, in half the time.
        return table.take(column)
    mask = np.zeros(len(column), dtype=bool)
    for number in accepted:
        mask |= column == number
    return mask
