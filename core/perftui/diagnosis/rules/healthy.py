"""``healthy``: every rule looked, none found lost time, and there are numbers to show for it."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.diagnosis import words
from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Abstention, Fact, Finding, Severity
from perftui.diagnosis.policy import Policy
from perftui.diagnosis.severity import collected, confidence, more_steps
from perftui.run.step_budget import StepShare

RULE = "healthy"

_COMPUTE = ("forward", "backward", "optimizer")
_DEVICE_BUSY = ("gpu compute", "exposed communication", "exposed copies")


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
    return Abstention(RULE, share) if isinstance(share, str) else _without_gpu(share, policy)


def _with_gpu(evidence: Evidence, policy: Policy) -> Finding | Abstention:
    trace = evidence.trace
    share = collected(evidence, policy)
    if evidence.manifest and isinstance(share, str):
        return Abstention(RULE, share)
    if trace and trace.has_gpu:
        busy = sum(trace.part(name) for name in _DEVICE_BUSY) / trace.step_ns
        source, steps = "from the trace", trace.steps
    elif evidence.machine.gpu_busy is not None:
        busy, source = evidence.machine.gpu_busy, "as the driver samples it"
        steps = evidence.steady_steps
    else:
        return Abstention(RULE, "neither a trace nor telemetry says how busy the GPU is")
    if busy < policy.healthy_busy:
        return Abstention(RULE, f"the GPU is busy {100 * busy:.1f} %, and no rule says why")
    return Finding(
        RULE,
        Severity.HEALTHY,
        f"No bottleneck found: the GPU is busy {words.percent(busy)} of the time.",
        (
            Fact(f"GPU busy, {source}", round(100 * busy, 1), "%", 100 * policy.healthy_busy),
            Fact("steady steps", steps, "count"),
        ),
        step_ns=trace.step_ns if trace else evidence.share.mean if evidence.share else 0,
        confidence=confidence(steps, policy),
        would_raise_confidence=more_steps(steps, policy),
    )


def _without_gpu(share: StepShare, policy: Policy) -> Finding | Abstention:
    compute = sum(share.part(phase) for phase in _COMPUTE)
    if compute < policy.healthy_compute * share.mean:
        return Abstention(RULE, _elsewhere(share, compute))
    return Finding(
        RULE,
        Severity.HEALTHY,
        "No bottleneck found: the time is in forward and backward. They and the optimizer take "
        f"{words.part_of_step(compute, share.mean)}; waiting for data takes "
        f"{words.percent(share.part('input_wait') / share.mean)}.",
        (
            *(Fact(phase.replace("_", " "), part, "ns") for phase, part in share.parts if part),
            Fact("mean step", share.mean, "ns"),
            Fact("steady steps", share.count, "count"),
        ),
        step_ns=share.mean,
        confidence=confidence(share.count, policy),
        would_raise_confidence=more_steps(share.count, policy),
    )


def _elsewhere(share: StepShare, compute: int) -> str:
    phase, part = max(share.parts, key=lambda named: named[1])
    return (
        f"forward, backward and optimizer are {words.percent(compute / share.mean)} of the step; "
        f"the largest part is {phase.replace('_', ' ')}, {words.percent(part / share.mean)}, "
        "and no rule says why"
    )
