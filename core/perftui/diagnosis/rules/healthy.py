"""``healthy``: no rule found lost time, and there are numbers to show for it.

A rule that abstained is no objection, so what is asked of the numbers leaves no room for what it
looks for: a device that is busy does not wait, and a step that computes does not either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perftui import format as fmt
from perftui.analysis.budget import COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Abstention, Confidence, Fact, Finding, Severity
from perftui.diagnosis.policy import Policy
from perftui.diagnosis.severity import (
    collected,
    confidence,
    more_steps,
    trace_confidence,
)
from perftui.facts.step_breakdown import StepShare
from perftui.facts.step_kind import EVAL, INFER, TRAIN
from perftui.facts.trace_steps import TraceFacts

RULE = "healthy"

_COMPUTE = ("forward", "backward", "optimizer")
_COMPUTING = {
    TRAIN: "forward and backward. They and the optimizer take",
    EVAL: "the forward pass. It takes",
    INFER: "the forward pass. It takes",
}
_EXPOSED = (EXPOSED_COMMUNICATION, EXPOSED_COPIES)


def evaluate(
    evidence: Evidence, policy: Policy, findings: Sequence[Finding]
) -> Finding | Abstention | None:
    """Say that a training is healthy, given what the other rules found."""
    if any(finding.severity > Severity.INFO for finding in findings):
        return None
    if evidence.has_gpu:
        return _with_gpu(evidence, policy)
    if evidence.manifest is None:
        return Abstention(RULE, "a trace without GPU activity and without a run shows too little")
    share = collected(evidence, policy)
    if isinstance(share, str):
        return Abstention(RULE, share)
    if evidence.ranks > 1:
        # A rank that is ahead waits for the others inside its backward pass.
        return Abstention(RULE, "backward may be waiting for other ranks, which nothing here tells")
    return _without_gpu(share, evidence.kind, policy)


def _with_gpu(evidence: Evidence, policy: Policy) -> Finding | Abstention:
    share = collected(evidence, policy)
    if evidence.manifest and isinstance(share, str):
        return Abstention(RULE, share)
    if evidence.trace and evidence.trace.has_gpu:
        return _by_trace(evidence.trace, policy)
    if evidence.machine.gpu_busy is None:
        return Abstention(RULE, "neither a trace nor telemetry says how busy the GPU is")
    return _by_telemetry(evidence, evidence.machine.gpu_busy, policy)


def _by_trace(trace: TraceFacts, policy: Policy) -> Finding | Abstention:
    exposed = {name: trace.part(name) / trace.step_ns for name in _EXPOSED}
    compute = trace.part(COMPUTE) / trace.step_ns
    busy = compute + sum(exposed.values())
    if busy < policy.healthy_busy:
        return _not_busy(busy, "of the steady steps" if trace.steps else "of the trace")
    if compute < policy.healthy_busy:
        # A device that waits for another one's gradients is as busy as one that computes.
        largest = max(exposed, key=lambda name: exposed[name])
        return Abstention(
            RULE,
            f"the GPU computes {100 * compute:.1f} % of the time; {largest} takes "
            f"{fmt.percent(exposed[largest])}, and no rule says why",
        )
    return replace(
        _busy(busy, "from the trace", trace.steps, policy),
        step_ns=trace.step_ns,
        confidence=trace_confidence(trace.steps, policy),
        would_raise_confidence=more_steps(trace.steps, policy),
    )


def _by_telemetry(evidence: Evidence, busy: float, policy: Policy) -> Finding | Abstention:
    """At low confidence: the driver's samples count a device as busy through gaps shorter than
    they are, and while it only communicates."""
    if busy < policy.healthy_busy:
        return _not_busy(busy, "of the time, as the driver samples it")
    return replace(
        _busy(busy, "as the driver samples it", evidence.steady_steps, policy),
        step_ns=evidence.share.mean if evidence.share else 0,
        confidence=Confidence.LOW,
        would_raise_confidence="a profiled window, which shows short gaps and communication too",
    )


def _not_busy(busy: float, of: str) -> Abstention:
    return Abstention(RULE, f"the GPU is busy {100 * busy:.1f} % {of}, and no rule says why")


def _busy(busy: float, source: str, steps: int, policy: Policy) -> Finding:
    return Finding(
        RULE,
        Severity.HEALTHY,
        f"No bottleneck found: the GPU is busy {fmt.percent(busy)} of the time.",
        (
            Fact(f"GPU busy, {source}", round(100 * busy, 1), "%", 100 * policy.healthy_busy),
            Fact("steady steps", steps, "count"),
        ),
        steps=steps,
    )


def _without_gpu(share: StepShare, kind: str, policy: Policy) -> Finding | Abstention:
    compute = sum(share.part(phase) for phase in _COMPUTE)
    if compute < policy.healthy_compute * share.mean:
        return Abstention(RULE, _elsewhere(share, compute))
    return Finding(
        RULE,
        Severity.HEALTHY,
        f"No bottleneck found: the time is in {_COMPUTING[kind]} "
        f"{fmt.part_of_step(compute, share.mean)}; waiting for data takes "
        f"{fmt.percent(share.part('input_wait') / share.mean)}.",
        (
            *(Fact(phase.replace("_", " "), part, "ns") for phase, part in share.parts if part),
            Fact("mean step", share.mean, "ns"),
            Fact("steady steps", share.count, "count"),
        ),
        step_ns=share.mean,
        confidence=confidence(share.count, policy),
        would_raise_confidence=more_steps(share.count, policy),
        steps=share.count,
    )


def _elsewhere(share: StepShare, compute: int) -> str:
    phase, part = max(share.parts, key=lambda named: named[1])
    return (
        f"forward, backward and optimizer are {fmt.percent(compute / share.mean)} of the step; "
        f"the largest part is {phase.replace('_', ' ')}, {fmt.percent(part / share.mean)}, "
        "and no rule says why"
    )
