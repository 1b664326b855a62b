"""Exact integer sums and extremes by group."""

from __future__ import annotations

import numpy as np

from perftui.trace.model import Int64


def sums(group: Int64, values: Int64, groups: int) -> Int64:
    """Sum of ``values`` in each group. ``np.bincount`` would sum in floats."""
    result = np.zeros(groups, dtype=np.int64)
    np.add.at(result, group, values)
    return result


def first_longest(group: Int64, values: Int64, groups: int) -> Int64:
    """Index of the largest value of each group, the first of equals; groups must not be empty."""
    order = np.lexsort((-values, group))
    begins = np.searchsorted(group[order], np.arange(groups))
    result: Int64 = order[begins].astype(np.int64)
    return result
