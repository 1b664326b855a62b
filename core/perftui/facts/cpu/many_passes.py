"""Many backward passes in one step, each of little: samples one by one, rows of a Jacobian, tiny
micro-batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.phases import BACKWARD, FORWARD
from perftui.facts.cpu.operator_loops import SMALL_NS
from perftui.facts.cpu.operators import Work, operators, work_of
from perftui.facts.fact import trace_fact
from perftui.trace.model import NONE


@dataclass(frozen=True, eq=False)
class ManyPasses:
    """What a step calls for all of its backward passes."""

    small: Work
    """Calls of forward and backward that are short: one on all of the data takes hardly longer."""
    per_step: float
    """Backward passes of a step, the mean."""


@trace_fact
def many_passes(analysis: TraceAnalysis) -> ManyPasses:
    """The backward passes of a step, and the calls of operators around and in them that take less
    than ``SMALL_NS``.

    Raises:
        UnknownError: the trace has no steps or no operators.
    """
    found = operators(analysis)
    marks = kinds.marked(found.trace, BACKWARD) & found.steps.inside
    called = (found.caller == NONE) & found.in_phase(FORWARD, BACKWARD)
    called &= found.duration < SMALL_NS
    small = work_of(found, found.within(called), called)
    return ManyPasses(small, float(np.count_nonzero(marks)) / found.steps.steps)
