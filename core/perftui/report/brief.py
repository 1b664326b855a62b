"""A report in at most 2,000 bytes: the verdict, the next command, and what costs most."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from perftui import format as fmt
from perftui.diagnosis.model import Finding, Severity
from perftui.diagnosis.rules import answer_to
from perftui.facts.step.steps import step_breakdown
from perftui.report.as_json import BriefReport
from perftui.report.findings_as_json import BriefFinding, finding_key, severity_name
from perftui.report.next_command import best_fix, comparison_command, next_command, next_of
from perftui.report.output_text import (
    LETTERS,
    SCHEMA,
    cut,
    encode_object,
    fits,
    fitting_lines,
    printable,
    replaced,
    whole,
)
from perftui.report.report import Report

MOST_FINDINGS = 3


def brief_text(report: Report) -> str:
    """The report for a person or a log; the next command is on the third line."""
    return fitting_lines(_lines(report))


def brief_json(report: Report) -> str:
    """One object on one line. Sentences are cut before commands and findings are left out."""
    return encode_object(brief_object(report), on_one_line=True)


def _lines(report: Report) -> Iterator[str]:
    diagnosis = report.diagnosis
    top = diagnosis.top
    if report.redaction is not None:
        yield report.redaction.head
    yield cut(_heading(report), LETTERS)
    verdict = f"{top.severity.name}  {top.headline}" if top else "no verdict: too little is known"
    yield cut(diagnosis.progress or verdict, 2 * LETTERS)
    following, comparing = next_command(report), comparison_command(report)
    for name, command in (("next", following), ("compare", comparing)):
        if command:
            yield f"{name}: {_shell(command)}"
    causes = [finding for finding in diagnosis.findings if finding.severity is not Severity.HEALTHY]
    for number, finding in enumerate(causes[:MOST_FINDINGS], 1):
        yield cut(f"{number}. {_title(finding)}", LETTERS)
        if finding is not top:
            yield cut(f"   {finding.sentence}", LETTERS)
        yield from _answer(finding, report, following)
    if len(causes) > MOST_FINDINGS:
        yield f"{fmt.several(len(causes) - MOST_FINDINGS, 'more finding')} without --brief"


def _heading(report: Report) -> str:
    run, steady = report.subject.run, step_breakdown(report.facts)
    name = run.manifest.script if run else report.subject.name
    if steady is None:
        return name
    steps = fmt.several(steady.count, "steady step")
    return f"{name}: {steps}, mean {fmt.duration(steady.mean)}"


def _title(finding: Finding) -> str:
    """The rule, the place and the cost."""
    place = _place(finding, LETTERS // 2)
    step = f"{fmt.duration(finding.step_ns)} ({fmt.percent(finding.share)})"
    cost = f"{fmt.duration(finding.cost_ns)} of {step}"
    return ", ".join(
        (
            f"{finding.rule} ({severity_name(finding.severity)}){f' at {place}' if place else ''}",
            *((cost,) if finding.cost_ns else ()),
            f"{finding.confidence.value} confidence",
        )
    )


def _answer(finding: Finding, report: Report, shown: list[str] | None) -> Iterator[str]:
    """What to do about the finding, or its best fix, and both where the advice is its own; then its
    next command unless ``shown``."""
    fix, command = best_fix(finding, report), next_of(finding, report)
    if (answer := answer_to(finding)) and (finding.advice or not fix):
        yield cut(f"   to do: {answer}", LETTERS)
    if fix:
        more = (fix.why_not,) if fix.is_written else tuple(risk.value for risk in fix.risks)
        yield cut(f"   fix {fix.fix}: {'; '.join((fix.title, *more))}", LETTERS)
    if command and command != shown:
        yield f"   {_shell(command)}"


def _shell(command: list[str]) -> str:
    """The command quoted for a shell; redacted first, as quotes would hide private text."""
    return printable(shlex.join(map(replaced, command)))


def _place(finding: Finding, letters: int) -> str | None:
    """The line with its whole path where there is room for it; None where nothing is known."""
    place = finding.place
    if place is None:
        return None
    source = place.source or ""
    name = source if len(source) <= letters else place.short
    return cut(name or place.operator or "", letters) or None


def brief_object(report: Report) -> BriefReport:
    """The brief report as JSON, with as many findings as fit."""
    causes = report.diagnosis.findings
    for with_commands in (True, False):
        for letters in (LETTERS, LETTERS // 2, LETTERS // 4):
            brief = _object(report, letters)
            for finding in causes[:MOST_FINDINGS]:
                row = _brief_finding(finding, report, letters)
                brief["findings"].append(row if with_commands else {**row, "next": None})
            brief["more_findings"] = len(causes) - len(brief["findings"])
            if fits(brief):
                return brief
    while not fits(brief):
        brief["findings"].pop()
        brief["more_findings"] += 1
    return brief


def _object(report: Report, letters: int) -> BriefReport:
    top, steady = report.diagnosis.top, step_breakdown(report.facts)
    return {
        "schema": SCHEMA,
        "redacted": report.redacted,
        "path": whole(report.subject.name),
        "verdict": cut(top.headline, letters) if top else None,
        "progress": report.diagnosis.progress or None,
        "steps": report.diagnosis.steady_steps,
        "step_ns": steady.mean if steady else None,
        "findings": [],
        "more_findings": 0,
        "next": whole(next_command(report)),
        "compare": whole(comparison_command(report)),
    }


def _brief_finding(finding: Finding, report: Report, letters: int) -> BriefFinding:
    fix = best_fix(finding, report)
    return {
        "key": finding_key(finding),
        "severity": severity_name(finding.severity),
        "confidence": finding.confidence,
        "cost_ns": finding.cost_ns,
        "share": round(finding.share, 4),
        "place": _place(finding, letters),
        "sentence": cut(finding.sentence, letters),
        "fix": fix.fix if fix else None,
        "answer": cut(answer_to(finding), letters) or None,
        "changes_numerics": fix.changes_numerics if fix else False,
        "next": whole(next_of(finding, report)),
    }
