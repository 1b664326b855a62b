"""Backward passes of a step, and in how many of them gradients were reduced with other ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.ranks.communication import collectives
from perftui.facts.step.trace_steps import trace_steps


@dataclass(frozen=True)
class BackwardPasses:
    """Means over the steady steps of a trace."""

    per_step: float
    reducing: float
    """Backward passes of a step during which a collective was under way."""


@trace_fact
def backward_passes(analysis: TraceAnalysis) -> BackwardPasses:
    """Backward passes by the ranges that perftui's agent marks.

    Raises:
        UnknownError: the trace marks no steps or no backward passes.
    """
    steps, trace = trace_steps(analysis), analysis.trace
    rows = np.flatnonzero(kinds.marked(trace, BACKWARD))
    if steps is None or not steps.steps or not len(rows):
        raise UnknownError("the trace marks no backward passes")
    rows = rows[steps.inside[rows]]
    meets = collectives(analysis).within(trace.start[rows], trace.ends_of(rows)) > 0
    return BackwardPasses(len(rows) / steps.steps, int(meets.sum()) / steps.steps)
