"""Exact integer sums and extremes by group."""

from __future__ import annotations

import numpy as np

from perftui.trace.model import NONE, Int64, Ints


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
