"""Findings and fixes as JSON, also as they are written to the source and taken back."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated, Literal, TypedDict, cast

from perftui.diagnosis.model import Confidence, Diagnosis, Figure, Finding, Severity
from perftui.diagnosis.rules import answer_to
from perftui.facts.place import Place
from perftui.facts.source.source_calls import LARGEST
from perftui.fixes.apply_and_undo import AppliedPatch, digest
from perftui.fixes.option import FixOption, Patch
from perftui.report.next_command import command, confidence_command, next_of
from perftui.report.output_text import SCHEMA, Command, Schema, Share, filled, said
from perftui.report.report import Report
from perftui.run.manifest import Override
from perftui.script.program import program_of

SeverityName = Literal["critical", "warning", "info", "healthy"]
Key = Annotated[
    str,
    said(
        "Rule and place (rule@file:function): the same in every run that names the same place, "
        "even if its lines have moved."
    ),
]
Numerics = Annotated[
    bool,
    said(
        "Whether the same samples in the same order may give other numbers with it; other order "
        "and other augmentation are among the risks."
    ),
]


Cost = Annotated[
    int, said("Nanoseconds lost per mean step, or in the whole trace if it marks no steps.")
]


class FindingOutput(TypedDict):
    """One cause of lost time; the costliest comes first."""

    rule: Annotated[str, said("perftui explain RULE describes it.")]
    key: Key
    severity: SeverityName
    sentence: Annotated[str, said("The finding for a human reader, with numbers, without the fix.")]
    facts: list[Figure]
    cost_ns: Cost
    step_ns: Annotated[
        int,
        said(
            "The mean steady step that the cost is part of, or the whole trace if it marks no "
            "steps; 0 if neither is known."
        ),
    ]
    share: Annotated[float, said("Cost as a share of the step, 0 to 1.")]
    cost_is_least: Annotated[bool, said("Whether more may be lost: the cost counts what was seen.")]
    best_speedup: Annotated[
        float | None,
        said(
            "Speed-up if the whole cost went away: an upper bound, not a promise; a lower one if "
            "`cost_is_least`."
        ),
    ]
    confidence: Confidence
    would_raise_confidence: Annotated[str, said("In words; empty if nothing would.")]
    would_raise_confidence_command: Annotated[
        list[str] | None, said("The command that does so, if there is one.")
    ]
    place: Place | None
    parts: list[str]
    fixes: Annotated[list[str], said("Names of the fixes that address it, best first.")]
    steps: Annotated[int, said("Steady steps that cost and confidence are based on.")]
    answer: Annotated[str | None, said("What to do, in one line.")]
    next: Command


class FixOutput(TypedDict):
    """One fix as it can be made for this run."""

    fix: Annotated[str, said("perftui explain FIX describes what it changes.")]
    answers: Annotated[list[str], said("The rules of the findings that it addresses.")]
    title: str
    risks: Annotated[list[str], said("What it may change besides speed, in words.")]
    changes_numerics: Numerics
    reversible: Annotated[
        bool, said("Whether it can be undone: a trial leaves the source alone, undo restores.")
    ]
    triable: Annotated[bool, said("Whether perftui try can measure it.")]
    why_not_tried: str | None
    written: Annotated[
        bool, said("Whether the source already has it since this run: run it again.")
    ]
    override: Annotated[Override | None, said("What a run would be started with; null if nothing.")]
    diff: Annotated[str | None, said("What perftui apply would write.")]
    command: Annotated[
        list[str] | None, said("The training's command with the script's own option for it.")
    ]
    why_not: Annotated[str | None, said("Why it cannot be written or made.")]
    advice: Annotated[str | None, said("The line to write by hand.")]
    file: str | None
    line: int | None


class BriefFinding(TypedDict):
    """A finding in a few words."""

    key: Key
    severity: SeverityName
    confidence: Confidence
    cost_ns: Cost
    share: Share
    place: Annotated[str | None, said("file:line, or the operator or kernel; null where unknown.")]
    sentence: str
    fix: Annotated[str | None, said("The name of its best fix.")]
    answer: Annotated[str | None, said("What to do, in one line.")]
    changes_numerics: Numerics
    next: Command


MODULE = "<module>"
"""Python's name for the code of a file outside functions."""

_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def function_at(file: str, line: int) -> str:
    """``Images.__getitem__`` or ``<module>``; empty where the file cannot be read here."""
    path = Path(file)
    try:
        stat = path.stat()
        if path.suffix != ".py" or not path.is_file() or stat.st_size > LARGEST:
            return ""
    except (OSError, ValueError):
        return ""
    program = program_of(path, stat.st_mtime_ns)
    named = (node for node in program.nodes if isinstance(node, _NAMED))
    # From the outermost on: what holds a line holds what is inside it.
    around = (n.name for n in named if n.lineno <= line <= (n.end_lineno or n.lineno))
    return ".".join(around) or MODULE if program.tree.body else ""


LONGEST = 100
"""Letters of a key: names of kernels have hundreds."""


def finding_key(finding: Finding) -> str:
    """``rule@file:function``: the same for one cause in every run, however its lines have moved.

    Where the source is not to be read here the function is left out; a finding without a line is
    named by its operator or kernel, or by its rule alone. The end of a long one is a digest."""
    key = _key(finding)
    if len(key) <= LONGEST:
        return key
    return f"{key[:LONGEST]}~{digest(key.encode('utf-8', 'replace'))[:8]}"


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
    return filled(
        FindingOutput,
        finding,
        key=finding_key(finding),
        severity=severity_name(finding.severity),
        cost_is_least=finding.is_least,
        would_raise_confidence_command=confidence_command(finding, report),
        answer=answer_to(finding) or None,
        next=next_of(finding, report),
    )


def severity_name(severity: Severity) -> SeverityName:
    """The severity in a word."""
    return cast(SeverityName, severity.name.lower())


def fix_object(fix: FixOption, diagnosis: Diagnosis) -> FixOutput:
    """A fix as it can be made here, and the findings that it answers."""
    return filled(
        FixOutput,
        fix,
        answers=[finding.rule for finding in diagnosis.findings if fix.fix in finding.fixes],
        reversible=fix.is_reversible,
        triable=fix.is_triable,
        why_not_tried=None if fix.is_triable else fix.why_not_tried,
        written=fix.is_written,
        diff=fix.patch.diff() if fix.patch else None,
        command=list(fix.argv) if fix.argv else None,
        why_not=fix.why_not or None,
        advice=fix.advice or None,
    )


Digest = Annotated[str | None, said("SHA-256 of the file, hexadecimal.")]


class ApplyOutput(TypedDict):
    """`perftui apply`: a fix written to the source."""

    schema: Schema
    fix: str
    title: str
    run: str
    outcome: Literal["written", "dry run", "written already"]
    file: str | None
    diff: Annotated[str | None, said("Unified diff; null if there is nothing to do.")]
    before_sha256: Digest
    after_sha256: Digest
    risks: list[str]
    changes_numerics: Numerics
    next: Command


class UndoOutput(TypedDict):
    """`perftui undo`: the source as it was before the last fix."""

    schema: Schema
    fix: Annotated[str | None, said("Null if an older version wrote it.")]
    title: str
    outcome: Literal["taken back", "dry run"]
    file: str
    diff: str
    before_sha256: Digest
    after_sha256: Digest
    next: Command


def apply_object(
    option: FixOption, root: Path, outcome: Literal["written", "dry run", "written already"]
) -> ApplyOutput:
    """The result of applying ``option`` for the run at ``root``."""
    patch = option.patch
    is_dry = outcome == "dry run"
    return filled(
        ApplyOutput,
        option,
        schema=SCHEMA,
        run=root.name,
        outcome=outcome,
        file=str(patch.path) if patch else option.file,
        diff=patch.diff() if patch else None,
        before_sha256=digest(patch.before) if patch else None,
        after_sha256=digest(patch.after) if patch else None,
        next=command("apply", option.fix, root) if is_dry else command("diagnose", root),
    )


def undo_object(
    applied: AppliedPatch, patch: Patch, root: Path, outcome: Literal["taken back", "dry run"]
) -> UndoOutput:
    """The result of taking back ``applied`` by ``patch``."""
    return {
        "schema": SCHEMA,
        "fix": applied.fix or None,
        "title": applied.title,
        "outcome": outcome,
        "file": str(patch.path),
        "diff": patch.diff(),
        "before_sha256": digest(patch.before),
        "after_sha256": digest(patch.after),
        "next": command("undo", root) if outcome == "dry run" else None,
    }
