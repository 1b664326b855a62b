"""Walks up the call stack of every row at once."""

from __future__ import annotations

import numpy as np

from perftui.analysis.kinds import Mask
from perftui.trace.model import NONE, Int32, Int64, Trace


def by_depth(trace: Trace) -> list[Int64]:
    """Rows of each depth, callers before what they call."""
    order = np.argsort(trace.depth, kind="stable")
    deepest = int(trace.depth.max(initial=0))
    edges = np.searchsorted(trace.depth[order], np.arange(1, deepest + 1))
    return [level.astype(np.int64) for level in np.split(order, edges)]


def innermost(trace: Trace, wanted: Mask) -> Int64:
    """For each row the nearest wanted one among itself and its callers, or NONE."""
    found = np.where(wanted, np.arange(len(trace)), NONE).astype(np.int64)
    for level in by_depth(trace):
        open_rows = level[(found[level] == NONE) & (trace.parent[level] != NONE)]
        found[open_rows] = found[trace.parent[open_rows]]
    return found


def above(found: Int64, parent: Int32) -> Int64:
    """From ``innermost``: the nearest wanted caller of each row, itself excluded."""
    return np.where(parent == NONE, NONE, found[parent])
