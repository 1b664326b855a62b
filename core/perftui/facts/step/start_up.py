"""Start-up that is most of a recording, of which only the steps behind it are judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.analysis.steps.detection import step_source
from perftui.facts.fact import NotApplicableError, trace_fact
from perftui.facts.step.trace_steps import trace_steps

LEAST_JUDGED = 1 / 3
"""Share of a recording from which on steps that nobody marked stand for it."""

MUCH = 1 / 3
"""Share of a recording in first uses from which on they are what it shows, where no other cause of
idle time is larger."""


@dataclass(frozen=True)
class StartUp:
    """First uses in all of a recording, ns."""

    idle: int
    whole: int
    judged: int
    """What the judged steps take of ``whole``."""


@trace_fact
def start_up(analysis: TraceAnalysis) -> StartUp:
    """First uses in a recording whose steps are derived from their rhythm and are little of it.

    Raises:
        NotApplicableError: it is judged whole, its steps are marked, or something else is more.
    """
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None or not steps.steps or not step_source(trace, analysis.steps):
        raise NotApplicableError
    near = np.flatnonzero(kinds.believable(trace))
    whole = int(trace.ends_of(near).max() - trace.start[near].min())
    judged = steps.step_ns * steps.steps
    idle = {one.cause: one.total for one in analysis.idle if one.device == steps.device}
    first = idle.get(GapCause.INITIALISATION, 0)
    if judged >= LEAST_JUDGED * whole or first < max(MUCH * whole, *idle.values()):
        raise NotApplicableError
    return StartUp(first, whole, judged)
