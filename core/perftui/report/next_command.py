"""The exact command that goes on from a report, as words for a shell or a program."""

from __future__ import annotations

from pathlib import Path

from perftui.diagnosis.asking import worth_asking
from perftui.diagnosis.model import Finding
from perftui.diagnosis.rule import MORE_PROFILED, more_steps
from perftui.facts.question import Question
from perftui.facts.step.steps import MANY_STEPS, step_breakdown, step_count
from perftui.fixes.fix import edited_since
from perftui.fixes.option import FixOption
from perftui.report.report import Report
from perftui.run.layout import is_run_directory
from perftui.run.manifest import Manifest, Status

PROGRAM = "perftui"

SPARE = 2
"""Steps to record for each missing steady step: profiled steps are not steady."""


def command(name: str, *words: str | Path) -> list[str]:
    """The command ``name`` of perftui with these words: for it to act on, a run comes last."""
    return [PROGRAM, name, *map(str, words)]


def next_command(report: Report) -> list[str] | None:
    """The next command of the costliest finding that has one, else the first command that would
    raise the confidence in a finding."""
    findings = report.diagnosis.findings
    commands = (next_of(finding, report) for finding in findings)
    asking = (_asking(question, report) for question in report.diagnosis.questions)
    more = (confidence_command(finding, report) for finding in findings)
    return next((command for command in (*commands, *asking, *more) if command), None)


def next_of(finding: Finding, report: Report) -> list[str] | None:
    """The next command for one finding; None if nothing is to be done, or not by a command."""
    run, fixes = report.subject.run, _fixes_of(finding, report)
    if run is None:
        return None
    if any(_is_outdated(fix, run.manifest) for fix in fixes):
        return command("diagnose", run.root)
    if best := best_fix(finding, report):
        return command("try" if best.is_triable else "apply", best.fix, run.root)
    return _asking(finding.question, report)


def _asking(question: Question | None, report: Report) -> list[str] | None:
    """Runs the training again with what would answer ``question``; None if no window was worth it,
    or one may still come."""
    run = report.subject.run
    if run is None or question is None or not run.manifest.status.is_over:
        return None
    if question not in worth_asking(report.diagnosis, report.facts):
        return None
    return command("diagnose", question.option, run.root)


def best_fix(finding: Finding, report: Report) -> FixOption | None:
    """The first fix of the finding that can be tried, else the first that can be written, else the
    first that the source has already."""
    fixes = _fixes_of(finding, report)
    choices = (
        *(fix for fix in fixes if fix.is_triable),
        *(fix for fix in fixes if fix.patch or fix.is_written),
    )
    return next(iter(choices), None)


def fixes_after(fix: str, report: Report) -> tuple[str, ...]:
    """Fixes to try after ``fix`` for the same finding, if it gains nothing."""
    answered = (finding for finding in report.diagnosis.findings if fix in finding.fixes)
    finding = next(answered, None)
    if finding is None:
        return ()
    triable = [one.fix for one in _fixes_of(finding, report) if one.is_triable or one.fix == fix]
    return tuple(triable[triable.index(fix) + 1 :]) if fix in triable else ()


def _fixes_of(finding: Finding, report: Report) -> list[FixOption]:
    offered = {fix.fix: fix for fix in report.fixes}
    return [offered[fix] for fix in finding.fixes if fix in offered]


def _is_outdated(fix: FixOption, manifest: Manifest) -> bool:
    """Whether the source is no longer what ran, so that the finding has to be seen again."""
    if fix.is_written:
        return True
    possible = fix.is_triable or fix.patch is not None
    return not possible and fix.file is not None and edited_since(Path(fix.file), manifest)


def confidence_command(finding: Finding, report: Report) -> list[str] | None:
    """What would raise the confidence in ``finding``, where a command can: a longer window, or a
    longer run of a training that was cut short."""
    run, wanted = report.subject.run, finding.would_raise_confidence
    if run is None or not run.manifest.status.is_over:
        return None
    if wanted == MORE_PROFILED:
        return command("diagnose", "--window", str(MANY_STEPS), run.root)
    if not wanted or not finding.steps or wanted != more_steps(finding.steps):
        return None
    options = []
    steady, recorded = step_breakdown(report.facts), step_count(report.facts)
    if steady is None or steady.count != finding.steps:
        options += ["--window", str(MANY_STEPS)]
    if _was_cut_short(run.manifest, recorded):
        steps = recorded + SPARE * (MANY_STEPS - finding.steps)
        options += ["--max-steps", str(steps)]
    return command("diagnose", *options, run.root) if options else None


def _was_cut_short(manifest: Manifest, steps: int) -> bool:
    """Whether the script was stopped early: past its own end, a longer run is another training."""
    if manifest.status is not Status.EXITED:
        return True
    most = manifest.profile.get("max_steps")
    # The last step may have been left open.
    return isinstance(most, int) and steps >= most - 1


def comparison_command(report: Report) -> list[str] | None:
    """Compares the run with the one that it repeats; None where that one is not there."""
    run = report.subject.run
    # A run may come from anybody: its parent is the name of a run beside it, never a path.
    name = Path(run.manifest.parent or "").name if run else ""
    if run is None or not name or name != run.manifest.parent:
        return None
    parent = run.root.parent / name
    return command("compare", parent, run.root) if is_run_directory(parent) else None
