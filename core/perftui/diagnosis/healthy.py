"""``healthy``: no rule found lost time, and there are numbers to show for it.

A rule that abstained is no objection, so what is asked of the numbers leaves no room for what it
looks for: a device that is busy does not wait, and a step that computes does not either.
"""

from __future__ import annotations

from collections.abc import Sequence

from perftui import format as fmt
from perftui.analysis.steps.parts import COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from perftui.diagnosis.judge import confidence, more_steps
from perftui.diagnosis.model import Abstention, Confidence, Figure, Finding, Severity
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.gpu import has_gpu
from perftui.facts.machine import machine_use
from perftui.facts.step_breakdown import StepBreakdown
from perftui.facts.steps import EVAL, INFER, TRAIN, steady_step, step_breakdown, step_kind
from perftui.facts.trace_steps import TraceSteps, trace_steps
from perftui.run.columns import phase_name

HEALTHY = "healthy"

WHEN = "none of these was found, and the numbers leave no room for one"
EXPLANATION = (
    "The GPU is busy nine tenths of the time or, without one, forward, backward and optimizer are "
    "most of the step, over enough steady steps to say so."
)

HEALTHY_BUSY = 0.90
"""Device busy over the steps: what is left to win by removing idle time is below 1.11x."""

HEALTHY_COMPUTE = 0.50
"""Without a GPU: forward, backward and optimizer together are most of the step. Below this the time
is in the script's own code, which no rule judges."""

_COMPUTE = ("forward", "backward", "optimizer")
_COMPUTING = {
    TRAIN: "forward and backward. They and the optimizer take",
    EVAL: "the forward pass. It takes",
    INFER: "the forward pass. It takes",
}
_EXPOSED = (EXPOSED_COMMUNICATION, EXPOSED_COPIES)


def healthy(facts: Facts, findings: Sequence[Finding]) -> Finding | Abstention | None:
    """Say that a training is healthy, given what the rules found."""
    if any(finding.severity > Severity.INFO for finding in findings):
        return None
    try:
        return _judged(facts)
    except UnknownError as error:
        return Abstention(HEALTHY, str(error))


def _judged(facts: Facts) -> Finding:
    if has_gpu(facts):
        return _with_gpu(facts)
    if facts.run is None:
        raise UnknownError("a trace without GPU activity and without a run shows too little")
    step = steady_step(facts)
    if facts.run.world > 1:
        # A rank that is ahead waits for the others inside its backward pass.
        raise UnknownError("backward may be waiting for other ranks, which nothing here tells")
    return _without_gpu(step, step_kind(facts))


def _with_gpu(facts: Facts) -> Finding:
    if facts.run:
        steady_step(facts)
    trace = trace_steps.or_none(facts)
    if trace and trace.has_gpu:
        return _by_trace(trace)
    busy = machine_use(facts).gpu_busy
    if busy is None:
        raise UnknownError("neither a trace nor telemetry says how busy the GPU is")
    return _by_telemetry(step_breakdown(facts), busy)


def _by_trace(trace: TraceSteps) -> Finding:
    exposed = {name: trace.part(name) / trace.step_ns for name in _EXPOSED}
    compute = trace.part(COMPUTE) / trace.step_ns
    busy = compute + sum(exposed.values())
    _check_busy(busy, "of the steady steps" if trace.steps else "of the trace")
    if compute < HEALTHY_BUSY:
        # A device that waits for another one's gradients is as busy as one that computes.
        largest = max(exposed, key=lambda name: exposed[name])
        raise UnknownError(
            f"the GPU computes {100 * compute:.1f} % of the time; {largest} takes "
            f"{fmt.percent(exposed[largest])}, and no rule says why"
        )
    sure = confidence(trace.steps, of_run=False)
    return _busy(busy, "from the trace", trace.breakdown, sure, more_steps(trace.steps))


def _by_telemetry(step: StepBreakdown | None, busy: float) -> Finding:
    """At low confidence: the driver's samples count a device as busy through gaps shorter than
    they are, and while it only communicates."""
    _check_busy(busy, "of the time, as the driver samples it")
    more = "a profiled window, which shows short gaps and communication too"
    return _busy(busy, "as the driver samples it", step, Confidence.LOW, more)


def _check_busy(busy: float, of: str) -> None:
    if busy < HEALTHY_BUSY:
        raise UnknownError(f"the GPU is busy {100 * busy:.1f} % {of}, and no rule says why")


def _busy(
    busy: float, source: str, step: StepBreakdown | None, sure: Confidence, more: str
) -> Finding:
    because = f"the GPU is busy {fmt.percent(busy)} of the time"
    figure = Figure.share(f"GPU busy, {source}", busy, HEALTHY_BUSY)
    return _finding(because, (figure,), step, sure, more)


def _finding(
    because: str,
    figures: tuple[Figure, ...],
    step: StepBreakdown | None,
    sure: Confidence,
    more: str,
) -> Finding:
    steps = step.count if step else 0
    return Finding(
        HEALTHY,
        Severity.HEALTHY,
        f"No bottleneck found: {because}.",
        (*figures, Figure("steady steps", steps, "count")),
        step_ns=step.mean if step else 0,
        confidence=sure,
        would_raise_confidence=more,
        steps=steps,
    )


def _without_gpu(step: StepBreakdown, judged: str) -> Finding:
    compute = sum(step.part(phase) for phase in _COMPUTE)
    if compute < HEALTHY_COMPUTE * step.mean:
        raise UnknownError(_elsewhere(step, compute))
    because = (
        f"the time is in {_COMPUTING[judged]} {fmt.part_of_step(compute, step.mean)}; waiting for "
        f"data takes {fmt.percent(step.part('input_wait') / step.mean)}"
    )
    parts = (Figure(phase_name(phase), part, "ns") for phase, part in step.parts if part)
    figures = (*parts, Figure("mean step", step.mean, "ns"))
    return _finding(because, figures, step, confidence(step.count), more_steps(step.count))


def _elsewhere(step: StepBreakdown, compute: int) -> str:
    phase, part = max(step.parts, key=lambda named: named[1])
    return (
        f"forward, backward and optimizer are {fmt.percent(compute / step.mean)} of the step; "
        f"the largest part is {phase_name(phase)}, {fmt.percent(part / step.mean)}, "
        "and no rule says why"
    )
