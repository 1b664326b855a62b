"""How much work steps hold: a mark around next to nothing is no step of a training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import Step
from perftui.trace.model import Int64, Trace

NEXT_TO_NOTHING = 0.05
"""Share of the work that step marks hold which do not stand for the recording, or a last step for
those before it."""


def held_by(trace: Trace, steps: Sequence[Step]) -> Int64:
    """How many operators and calls that drive a device begin in each of ``steps`` of the host."""
    # Each thread's rows are in order: merging these takes a fifth of sorting.
    begun = np.sort(trace.start[_work(trace)], kind="stable")
    start = np.array([step.start for step in steps], dtype=np.int64)
    end = np.array([step.end for step in steps], dtype=np.int64)
    counts: Int64 = np.searchsorted(begun, end) - np.searchsorted(begun, start)
    return counts


def are_bogus(trace: Trace, steps: Sequence[Step]) -> bool:
    """Whether ``steps`` hold next to nothing of the work and of the time that the host recorded."""
    rows = np.flatnonzero(_work(trace))
    if not len(rows):
        return False
    recorded = int(trace.ends_of(rows).max() - trace.start[rows].min())
    marked = sum(step.duration for step in steps)
    held = int(held_by(trace, steps).sum())
    return held < NEXT_TO_NOTHING * len(rows) and marked < NEXT_TO_NOTHING * recorded


def _work(trace: Trace) -> kinds.Mask:
    works: kinds.Mask = kinds.operators(trace) | kinds.launches(trace)
    return works & kinds.believable(trace)
