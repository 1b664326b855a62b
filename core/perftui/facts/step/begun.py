"""The part of a trace that its kernels can be judged by, where work ran before it began."""

from __future__ import annotations

from dataclasses import replace

from perftui.analysis.model import GapCause
from perftui.facts.step.step_breakdown import StepBreakdown
from perftui.facts.step.trace_complete import INCOMPLETE, missing
from perftui.facts.step.trace_steps import TraceSteps


def from_first_kernel(steps: TraceSteps) -> StepBreakdown | None:
    """The mean of ``steps`` without the time in which the device did what the trace does not hold;
    None where nothing is missing at its beginning, or more than that."""
    lacks = missing(steps.analysis)
    if not lacks.only_ahead or lacks.ahead_share < INCOMPLETE:
        return None
    of, queued = steps.breakdown, GapCause.QUEUED.value
    ahead = min(lacks.ahead // max(steps.steps, 1), of.part(queued))
    parts = tuple((name, ns - ahead * (name == queued)) for name, ns in of.parts)
    return replace(of, mean=of.mean - ahead, parts=parts)
