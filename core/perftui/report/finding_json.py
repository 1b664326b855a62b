"""Findings and fixes as plain values."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from perftui.diagnosis.catalogue import answer_to
from perftui.diagnosis.model import Diagnosis, Finding, Severity
from perftui.fixes.model import FixOption
from perftui.report.finding_key import finding_key
from perftui.report.next_command import confidence_command, next_of
from perftui.report.outputs.finding import FindingOutput, FixOutput, SeverityName
from perftui.report.report import Report


def finding_object(finding: Finding, report: Report) -> FindingOutput:
    """A finding with what follows from it; unknown is null."""
    facts: Any = msgspec.to_builtins(finding.facts)
    return {
        "rule": finding.rule,
        "key": finding_key(finding),
        "severity": severity_name(finding),
        "sentence": finding.sentence,
        "facts": facts,
        "cost_ns": finding.cost_ns,
        "step_ns": finding.step_ns,
        "share": finding.share,
        "cost_is_least": finding.is_least,
        "best_speedup": finding.best_speedup,
        "confidence": finding.confidence,
        "would_raise_confidence": finding.would_raise_confidence,
        "would_raise_confidence_command": confidence_command(finding, report),
        "place": msgspec.to_builtins(finding.place),
        "parts": list(finding.parts),
        "fixes": list(finding.fixes),
        "steps": finding.steps,
        "answer": answer_to(finding.rule) or None,
        "next": next_of(finding, report),
    }


def severity_name(finding: Finding) -> SeverityName:
    """How bad it is, in a word."""
    return name_of(finding.severity)


def name_of(severity: Severity) -> SeverityName:
    """``critical`` and the like."""
    return cast(SeverityName, severity.name.lower())


def fix_object(fix: FixOption, diagnosis: Diagnosis) -> FixOutput:
    """A fix as it can be made here, and the findings that it answers."""
    return {
        "fix": fix.fix,
        "answers": [one.rule for one in diagnosis.findings if fix.fix in one.fixes],
        "title": fix.title,
        "risks": [risk.value for risk in fix.risks],
        "changes_numerics": fix.changes_numerics,
        "reversible": fix.is_reversible,
        "triable": fix.is_triable,
        "why_not_tried": None if fix.is_triable else fix.why_not_tried,
        "written": fix.is_written,
        "override": msgspec.to_builtins(fix.override),
        "diff": fix.patch.diff() if fix.patch else None,
        "command": list(fix.argv) if fix.argv else None,
        "why_not": fix.why_not or None,
        "advice": fix.advice or None,
        "file": fix.file,
        "line": fix.line,
    }
