"""`perftui check`: a gate for builds, on saved runs and traces."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from perftui.diagnosis.model import Severity
from perftui.experiments.history import History, earlier_runs_of, history_of
from perftui.facts.fact import Facts
from perftui.report.check import forms
from perftui.report.check.forms import as_object
from perftui.report.check.judge import (
    HISTORY,
    NEWEST,
    CheckLimits,
    Gate,
    Repository,
    Verdict,
    judge,
    repository_around,
)
from perftui.report.subject import paths_of
from perftui.run.files import replace_file
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import (
    DONE,
    ERROR,
    USAGE,
    log,
    refusing,
    waiting,
    write,
    write_object,
)
from perftui_tui.commands.report import kind
from perftui_tui.commands.target import Target, find_target, subject_of


def check(line: CommandLine) -> int:
    """Print a row for each limit and the verdict; 0 if it passed, 1 if it failed, 2 if it cannot be
    judged."""
    limits = _limits(line)
    target = find_target(line)
    facts = _facts(target)
    has_history = line.values.get("against") == HISTORY and facts.manifest is not None
    history = history_of(target.path, facts) if has_history else None
    against = _baseline(line, target, facts, history)
    before = _facts(against) if against else None
    with waiting(f"judging {target.path.name}"):
        gate = judge(
            target.path,
            facts,
            limits,
            against=against.path if against else None,
            before=before,
            needs_baseline="against" in line.values,
            history=history,
        )
    _write(gate, repository_around(Path.cwd(), os.environ.get("GITHUB_WORKSPACE")), line)
    return {Verdict.PASSED: DONE, Verdict.FAILED: ERROR, Verdict.NOT_JUDGED: USAGE}[gate.verdict]


def _limits(line: CommandLine) -> CheckLimits:
    if "against" not in line.values:
        if "max-regression" in line.values:
            raise UsageError("--max-regression needs a baseline: add --against BASELINE")
        if line.values.get("fail-on") == "none":
            raise UsageError("--fail-on none leaves nothing to check: add --against BASELINE")
    if {"json", "github"} <= line.flags:
        raise UsageError("--json and --github both print on stdout: drop one of them")
    word = line.values.get("fail-on", "critical")
    return CheckLimits(
        None if word == "none" else Severity[word.upper()],
        line.values.get("max-regression", CheckLimits().max_regression),
        line.values.get("inconclusive") == "fail",
    )


def _facts(target: Target) -> Facts:
    if special := kind(target):
        raise UsageError(f"check needs a run or a trace; {target.path} is a {special.value}")
    subject = subject_of(target)
    for note in target.notes:
        log(f"perftui: {note}")
    return Facts(subject.run, subject.analysis, subject.rank, paths_of(target.ranks))


def _baseline(
    line: CommandLine, target: Target, facts: Facts, history: History | None
) -> Target | None:
    """The target of ``--against``, for a history the last run that was not slower; None without the
    option, or without an earlier run."""
    word = line.values.get("against")
    if word is None:
        return None
    if word not in (NEWEST, HISTORY):
        baseline = find_target(replace(line, words=(word,)))
        if baseline.path.resolve() == target.path.resolve():
            raise UsageError(f"{target.path} cannot be checked against itself")
        return baseline
    if facts.manifest is None:
        raise UsageError(f"--against {word} needs a run: of a trace, name the baseline")
    if history is not None:
        return Target(history.last_before.root) if history.last_before else None
    newest = next(iter(earlier_runs_of(target.path, facts.manifest)), None)
    return Target(newest.root) if newest else None


def _write(gate: Gate, repository: Repository, line: CommandLine) -> None:
    if "junit" in line.values:
        path = line.values["junit"]
        with refusing(OSError, where=f"{path} cannot be written"):
            # Whatever collects the results of a build may be another user.
            replace_file(path, forms.junit_xml(gate, repository), mode=0o644)
    if "json" in line.flags:
        write_object(as_object(gate, repository))
        return
    write(forms.check_text(gate))
    if "github" in line.flags:
        write(forms.github_commands(gate, repository))
