"""Memory that the training gets from the driver, and gives back, in its steady steps."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import union
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.facts.fact import Facts, UnknownError, fact, trace_fact
from perftui.facts.gpu.host_waits import distinct, gaps_of
from perftui.facts.source.lines import FEWEST_SAMPLES, LinesByTime, lines_by_time
from perftui.facts.source.main_thread import stack_samples, steady_held
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.model import Int64

_FREES = re.compile(r"Free|Release|Unmap")
_EMPTIES = re.compile(r"torch/\w+/memory\.py:\d+ empty_cache$")


@dataclass(frozen=True, eq=False)
class Allocations:
    """Calls that get memory from the driver or give it back, in the steady steps; without those
    that set the driver up."""

    steps: TraceSteps
    rows: Int64
    time: int
    """ns in all of those steps."""
    frees: int
    """How many give back."""
    in_steps: int
    """Steps in which there are any."""

    @property
    def gets(self) -> int:
        """How many get memory."""
        return len(self.rows) - self.frees


@trace_fact
def allocations(analysis: TraceAnalysis) -> Allocations:
    """Allocations of GPU memory by all threads of the training.

    Raises:
        UnknownError: the trace shows no GPU.
    """
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None or not steps.has_gpu:
        raise UnknownError("no GPU kernels in this trace: recorded with CPU activity only")
    rows = np.flatnonzero(kinds.allocating(trace)).astype(np.int64)
    rows = rows[steps.inside[rows]]
    rows = rows[~gaps_of(steps, (GapCause.INITIALISATION,)).holds(trace.start[rows])]
    frees = kinds.named(trace, _FREES.search)[rows]
    starts = np.array([one.step.start for one in steps.each], dtype=np.int64)
    of_step = np.searchsorted(starts, trace.start[rows], side="right")
    return Allocations(
        steps,
        rows,
        union(trace.start[rows], trace.ends_of(rows)).total,
        int(np.count_nonzero(frees)),
        len(distinct(of_step)),
    )


@fact
def empty_cache_lines(facts: Facts) -> LinesByTime | None:
    """Where the main thread emptied the allocator's cache in the steady steps, as a share of all
    of them; None with too few samples, or where none found it so."""
    outside, _ = stack_samples(facts)
    held = steady_held(facts)
    if not len(outside):
        return None
    empties = np.array([bool(_EMPTIES.search(inner)) for inner in outside["inner"].tolist()])
    whole = lines_by_time(outside, held)
    found = lines_by_time(outside, np.where(empties, held, 0))
    if whole.samples < FEWEST_SAMPLES or not found.lines:
        return None
    return LinesByTime(found.lines, whole.covered, whole.samples)
