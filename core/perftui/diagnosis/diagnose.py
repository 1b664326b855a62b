"""Asks every rule and ranks what they find by what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perftui import format as fmt
from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Abstention, Diagnosis, Finding, Severity
from perftui.diagnosis.policy import Policy
from perftui.diagnosis.rules import RULES, healthy

REFINES = {"input-in-main-thread": "input-bound"}
"""A rule, and the more general one that speaks of the same milliseconds."""


def diagnose(evidence: Evidence) -> Diagnosis:
    """Judge ``evidence`` by every rule."""
    policy = Policy()
    outcomes = [rule(evidence, policy) for rule in RULES]
    findings = without_repeats([found for found in outcomes if isinstance(found, Finding)])
    abstentions = [found for found in outcomes if isinstance(found, Abstention)]
    verdict = healthy.evaluate(evidence, policy, findings)
    if isinstance(verdict, Finding):
        findings.append(verdict)
    elif verdict:
        abstentions.append(verdict)
    return Diagnosis(
        tuple(sorted(findings, key=_rank)),
        tuple(abstentions),
        evidence.steady_steps,
        progress(evidence, policy),
    )


def without_repeats(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out a finding whose milliseconds a more specific one names already.

    The specific one takes over the worse of the two severities.
    """
    by_rule = {finding.rule: finding for finding in findings}
    for specific, general in REFINES.items():
        if specific in by_rule and general in by_rule:
            worst = max(by_rule[specific].severity, by_rule.pop(general).severity)
            by_rule[specific] = replace(by_rule[specific], severity=worst)
    return list(by_rule.values())


def progress(evidence: Evidence, policy: Policy) -> str:
    """What is being waited for, empty once there are enough steps or the run is over."""
    manifest = evidence.manifest
    if manifest is None or manifest.status.is_over:
        return ""
    if evidence.step_count == 0:
        return "waiting for the first training step"
    steady = evidence.share.count if evidence.share else 0
    if steady == 0:
        return f"warming up, {fmt.several(evidence.step_count, 'step')} so far"
    if steady < policy.critical_steps:
        return f"collecting, {steady} of {policy.critical_steps} steady steps"
    return ""


def _rank(finding: Finding) -> tuple[bool, float, int, str]:
    """Healthy first (nothing above info stands beside it), then by cost, then by severity.

    Costs are compared as shares, since profiled steps are longer than others.
    """
    return (
        finding.severity is not Severity.HEALTHY,
        -finding.share,
        -finding.severity,
        finding.rule,
    )
