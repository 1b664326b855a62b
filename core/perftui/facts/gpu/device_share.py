"""Time in a trace with a GPU, as it counts in the step that is judged."""

from __future__ import annotations

from dataclasses import replace

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.facts.fact import Facts, fact
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.step_breakdown import StepBreakdown
from perftui.facts.step.trace_steps import trace_steps

_IDLE = tuple(cause.value for cause in GapCause)


@fact
def idle_scale(facts: Facts) -> float:
    """What a ns of idle time in the trace is in the judged step: the profiler slows the host, and
    with that prolongs what the device idles.

    Raises:
        UnknownError: there is no trace or no step.
    """
    judged, steps = judged_step(facts), trace_steps(facts)
    recorded = sum(steps.part(name) for name in _IDLE) if steps else 0
    idle = sum(judged.part(name) for name in _IDLE)
    return min(idle / recorded, 1.0) if recorded else 1.0


@fact
def window_step(facts: Facts) -> StepBreakdown:
    """The judged step, resting on as many steps as the trace shows: so many stand behind what is
    read from it.

    Raises:
        UnknownError: there is no trace or no step.
    """
    judged, steps = judged_step(facts), trace_steps(facts)
    return replace(judged.of, count=steps.steps if steps else 0, of_run=False)


def part_of(step: StepBreakdown, cost: int) -> str:
    """``cost`` with the step, or the trace without steps, that it is part of, in words."""
    return (fmt.part_of_step if step.count else fmt.part_of_trace)(cost, step.mean)


def per_step(facts: Facts, idle_ns: int) -> int:
    """Idle time of all steady steps of the trace, as that of one judged step, ns."""
    steps = trace_steps(facts)
    return round(idle_ns / max(steps.steps if steps else 1, 1) * idle_scale(facts))
