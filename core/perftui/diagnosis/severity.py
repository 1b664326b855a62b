"""How bad a share of the step is, and how sure the number of steps lets us be."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Confidence, Severity
from perftui.diagnosis.policy import Policy
from perftui.facts.step_breakdown import StepShare


def severity(share: float, warning: float, critical: float) -> Severity | None:
    """Severity of a cost of ``share`` of the step; None below ``warning``."""
    if share >= critical:
        return Severity.CRITICAL
    return Severity.WARNING if share >= warning else None


def supported(found: Severity, steps: int, policy: Policy) -> Severity:
    """``found``, or a warning while a run has too few steady steps for a critical finding."""
    if found is Severity.CRITICAL and steps < policy.critical_steps:
        return Severity.WARNING
    return found


def confidence(steps: int, policy: Policy) -> Confidence:
    """High from the steps of a critical finding on, low below those of a warning."""
    if steps >= policy.critical_steps:
        return Confidence.HIGH
    return Confidence.MEDIUM if steps >= policy.warning_steps else Confidence.LOW


def trace_confidence(steps: int, policy: Policy) -> Confidence:
    """One degree lower, as a trace of fewer steps than a critical finding needs is judged whole."""
    return Confidence.HIGH if steps >= policy.critical_steps else Confidence.LOW


def more_steps(steps: int, policy: Policy) -> str:
    """What would raise the confidence, empty where it is high already."""
    missing = policy.critical_steps - steps
    return fmt.several(missing, "more steady step") if missing > 0 else ""


def supported_by_trace(found: Severity, steps: int, policy: Policy) -> Severity:
    """``found``, or a warning where a trace marks too few steps (0: none, judged whole)."""
    return Severity.WARNING if 0 < steps < policy.warning_steps else found


def collected(evidence: Evidence, policy: Policy) -> StepShare | str:
    """The run's mean steady step, or why nothing can be said of its steps yet."""
    share = evidence.share
    if share is not None and share.count >= policy.warning_steps and share.mean:
        return share
    if share is not None and share.count and not share.mean:
        return "the recorded steps take no time"
    if share is None and evidence.step_count > policy.warning_steps:
        steps_of = f"{evidence.step_count} steps of {evidence.activity}"
        return f"none of {steps_of} is steady and consistent"
    steps = share.count if share else 0
    return f"{steps} of {policy.warning_steps} steady steps so far"
