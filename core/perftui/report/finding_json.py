"""Findings and fixes as plain values."""

from __future__ import annotations

import ast
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import msgspec

from perftui.diagnosis.model import Diagnosis, Finding, Severity
from perftui.diagnosis.rules import answer_to
from perftui.facts.source.source_search import LARGEST
from perftui.fixes.model import FixOption
from perftui.report.next_command import confidence_command, next_of
from perftui.report.outputs.finding import FindingOutput, FixOutput, SeverityName
from perftui.report.report import Report
from perftui.script.program import tree_of

MODULE = "<module>"
"""What Python calls the code of a file outside functions."""

_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def function_at(file: str, line: int) -> str:
    """``Images.__getitem__`` or ``<module>``; empty where the file cannot be read here."""
    path = Path(file)
    try:
        known = path.stat()
        if path.suffix != ".py" or not path.is_file() or known.st_size > LARGEST:
            return ""
    except (OSError, ValueError):
        return ""
    tree = tree_of(path, known.st_mtime_ns)
    return ".".join(_names(tree, line)) or MODULE if getattr(tree, "body", None) else ""


def _names(node: ast.AST, line: int) -> list[str]:
    for child in ast.iter_child_nodes(node):
        first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if first is None or last is None or not first <= line <= last:
            # What has no lines of its own, as the arguments of a function, holds no function.
            continue
        inner = _names(child, line)
        return [child.name, *inner] if isinstance(child, _NAMED) else inner
    return []


LONGEST = 100
"""Letters of a key: names of kernels have hundreds."""


def finding_key(finding: Finding) -> str:
    """``rule@file:function``: the same for one cause in every run, however its lines have moved.

    Where the source is not to be read here the function is left out; a finding without a line is
    named by its operator or kernel, or by its rule alone. The end of a long one is a digest.
    """
    key = _key(finding)
    if len(key) <= LONGEST:
        return key
    return f"{key[:LONGEST]}~{sha256(key.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _key(finding: Finding) -> str:
    place = finding.place
    if place is None or not (place.file or place.operator):
        return finding.rule
    if place.file is None:
        return f"{finding.rule}@{place.operator}"
    function = function_at(place.file, place.line) if place.line else ""
    return f"{finding.rule}@{Path(place.file).name}{function and ':'}{function}"


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
