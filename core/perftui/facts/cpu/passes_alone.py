"""Forward passes in training steps without a backward pass: generation, evaluation, acting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.phases import BACKWARD, FORWARD
from perftui.facts.cpu.model_passes import WEIGHTED, WEIGHTED_NODE
from perftui.facts.cpu.operators import PHASES, Operators, operators
from perftui.facts.fact import trace_fact
from perftui.trace.model import Int64

MANY = 8
"""Forward passes for each backward pass from which on a step plays or generates: learning from
another network, such as double Q-learning, takes four."""


@dataclass(frozen=True, eq=False)
class PassesAlone:
    """Forward passes beside those that are trained."""

    taken: Int64
    """Their time in all steps of the trace, by number of ``PHASES``, ns."""
    per_step: float
    """How many a step makes, the mean."""


@trace_fact
def passes_alone(analysis: TraceAnalysis) -> PassesAlone | None:
    """Forward passes without a backward pass, where a step makes many of them for each that has
    one; None where it does not. The one before each backward pass is taken to be trained."""
    found = operators(analysis)
    weighted = np.count_nonzero(found.named(WEIGHTED.match) & found.in_phase(FORWARD))
    nodes = np.count_nonzero(found.named(WEIGHTED_NODE.match))
    passes, backward = _marks(found, FORWARD), _marks(found, BACKWARD)
    if not nodes or weighted < MANY * nodes or len(passes) < MANY * len(backward):
        return None
    trace = found.trace
    before = np.searchsorted(trace.start[passes], trace.start[backward]) - 1
    alone = np.delete(passes, np.unique(before[before >= 0]))
    taken = np.zeros(len(PHASES), dtype=np.int64)
    taken[PHASES.index(FORWARD)] = int((trace.ends_of(alone) - trace.start[alone]).sum())
    return PassesAlone(taken, len(alone) / found.steps.steps)


def _marks(found: Operators, phase: str) -> Int64:
    """Rows that mark a phase within the steps, by start."""
    rows = np.flatnonzero(kinds.marked(found.trace, phase) & found.steps.inside)
    return rows[np.argsort(found.trace.start[rows], kind="stable")]
