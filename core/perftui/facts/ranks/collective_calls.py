"""Each collective of the steady steps on the GPU: what it is, what it moves, how long it takes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import Intervals, subtract, union
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.calls import launch_of
from perftui.facts.fact import NotApplicableError, UnknownError, trace_fact
from perftui.facts.ranks.collective_sizes import CollectiveArguments, collective_arguments
from perftui.facts.step.steady import Mask
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.model import DEVICE_ACTIVITY, MEMCPY, NONE, Int64

MOST_CALLS = 1_000
"""Calls whose arguments are read, the first of them; each takes 5 us and more."""

_SYNC_NORM = "SyncBatchNorm"
"""In the names of the operators of synchronised batch normalisation, forward and backward."""

_LEVELS = 6
"""Operators around the launch of a collective at most."""


@dataclass(frozen=True, eq=False)
class CollectiveCalls:
    """All columns are as long as ``rows``, collective kernels of the judged device by start."""

    steps: int
    """Steps that they belong to; 1 for the whole of a trace that marks none."""
    rows: Int64
    duration: Int64
    kind: tuple[str, ...]
    """``all-reduce`` and the like; empty for what is none of those that are distinguished."""
    size: Int64
    """Bytes; NONE where the trace does not record them."""
    ranks: Int64
    """Ranks that take part; NONE where that is not recorded."""
    of_norm: Mask
    """Those of synchronised batch normalisation."""
    _times: tuple[Int64, Int64] = field(repr=False)
    _computing: Intervals = field(repr=False)

    def are(self, kind: str) -> Mask:
        """Mask of the calls of one kind."""
        return np.array([each == kind for each in self.kind], dtype=bool)

    def under_way(self, chosen: Mask) -> Intervals:
        """When any of some calls was under way."""
        start, end = self._times
        return union(start[chosen], end[chosen])

    def exposed(self, chosen: Mask) -> int:
        """Mean time of a step in which some calls were under way and nothing computed, ns."""
        return subtract(self.under_way(chosen), self._computing).total // self.steps


@trace_fact
def collective_calls(analysis: TraceAnalysis) -> CollectiveCalls:
    """The collectives that begin in the steady steps.

    Raises:
        NotApplicableError: none is in the trace, or no GPU.
        UnknownError: the trace has no duration.
    """
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None:
        raise UnknownError("the trace has no duration")
    collectives = kinds.communication(trace)
    if not steps.has_gpu or not collectives.any():
        raise NotApplicableError
    rows = np.flatnonzero(collectives & steps.on_device & steps.inside).astype(np.int64)
    if not len(rows):
        raise NotApplicableError
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    launch = launch_of(trace, rows)
    told = [
        collective_arguments(trace, int(row), int(call))
        for row, call in zip(rows[:MOST_CALLS], launch[:MOST_CALLS], strict=True)
    ]
    told += [CollectiveArguments("", None, None)] * (len(rows) - len(told))
    return CollectiveCalls(
        max(steps.steps, 1),
        rows,
        trace.duration[rows].astype(np.int64),
        tuple(each.kind for each in told),
        np.array([each.size or NONE for each in told], dtype=np.int64),
        np.array([each.ranks or NONE for each in told], dtype=np.int64),
        _under(analysis, launch.astype(np.int64), _SYNC_NORM),
        (trace.start[rows], trace.ends_of(rows)),
        _computing(steps),
    )


def _computing(steps: TraceSteps) -> Intervals:
    trace = steps.analysis.trace
    rows = trace.in_category(*DEVICE_ACTIVITY) & steps.on_device & ~kinds.communication(trace)
    rows &= ~trace.in_category(MEMCPY)
    return union(trace.start[rows], trace.ends_of(rows))


def _under(analysis: TraceAnalysis, launch: Int64, word: str) -> Mask:
    """Which launches an operator with ``word`` in its name is around."""
    trace = analysis.trace
    named = np.array([word in name for name in trace.names], dtype=bool)
    rows, found = launch, np.zeros(len(launch), dtype=bool)
    for _ in range(_LEVELS):
        found |= (rows != NONE) & named[trace.name[rows]]
        rows = np.where(rows == NONE, NONE, trace.parent[rows]).astype(np.int64)
    return found
