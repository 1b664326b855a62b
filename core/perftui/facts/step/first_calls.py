"""First calls of operators that set something up, where only the host of a GPU was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.host_work import SETS_UP
from perftui.analysis.intervals import intersect, union
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import NotApplicableError, UnknownError, trace_fact
from perftui.facts.step.trace_complete import unrecorded_gpu
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.model import Trace

FAR_LONGER = 10
"""Times the longest later call of its operator that a first call takes which sets something up:
for the sizes of layers alone calls of one operator seldom differ by so much."""

_NEARLY = 0.9


@dataclass(frozen=True)
class FirstCalls:
    """Calls that set something up."""

    steps: TraceSteps
    time: int
    """ns of the mean step, or of all of the trace, that they cover."""
    operator: str
    """The innermost operator that holds nearly all of the longest of them."""


@trace_fact
def first_calls(analysis: TraceAnalysis) -> FirstCalls:
    """First calls of PyTorch's operators that take far longer than all later ones.

    Raises:
        NotApplicableError: a GPU was recorded, or none is used.
        UnknownError: no first call does so.
    """
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None or not unrecorded_gpu(analysis):
        raise NotApplicableError
    found = np.array(list(_standing_out(trace)), dtype=np.int64)
    if not len(found):
        raise UnknownError("no first call takes far longer than later ones")
    covered = intersect(union(trace.start[found], trace.ends_of(found)), steps.on_host)
    longest = found[trace.duration[found] >= _NEARLY * trace.duration[found].max()]
    inner = int(longest[np.argmax(trace.start[longest])])
    return FirstCalls(steps, covered.total // max(steps.steps, 1), trace.name_of(inner))


def _standing_out(trace: Trace) -> Iterator[int]:
    """Rows of such calls, of operators that are called again."""
    rows = np.flatnonzero(kinds.of_pytorch(trace) & kinds.believable(trace))
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    slow = rows[trace.duration[rows] >= SETS_UP]
    for name in np.unique(trace.name[slow]).tolist():
        first, *later = rows[trace.name[rows] == name].tolist()
        if later and trace.duration[first] >= max(
            SETS_UP, FAR_LONGER * trace.duration[later].max()
        ):
            yield first
