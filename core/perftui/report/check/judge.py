"""Holds a run or trace against its limits, alone or beside a baseline: rows, and a verdict."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from perftui import format as fmt
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity
from perftui.diagnosis.rules import answer_to
from perftui.experiments import comparison
from perftui.experiments.comparison import Comparison, compare
from perftui.experiments.conditions import Difference
from perftui.experiments.history import FEWEST_RUNS, History, Standing
from perftui.facts.fact import Facts
from perftui.facts.step.steps import MANY_STEPS
from perftui.report.findings_as_json import finding_key, severity_name

STEP_TIME = "step time"
"""Name of the check of the step's duration."""


class State(str, enum.Enum):
    """The result of one check."""

    OK = "ok"
    FAILED = "failed"
    NOT_CERTAIN = "not certain"
    """Nothing proves that the limit is exceeded, and nothing that it is not."""
    NOT_JUDGED = "not judged"
    """There is too little to judge by."""


class Verdict(str, enum.Enum):
    """The result of all checks."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class CheckLimits:
    """The limits of a check."""

    fail_on: Severity | None = Severity.CRITICAL
    """The least severity of a finding that fails; None for no finding at all."""
    max_regression: float = 0.05
    """Share by which a step may be longer than in the baseline."""
    inconclusive_fails: bool = False
    """Whether a check that is not certain fails."""


@dataclass(frozen=True)
class Check:
    """One limit, and what was found."""

    name: str
    """The key of the finding, or what was measured; the same in every run."""
    found: str
    limit: str
    state: State
    message: str
    """A sentence for whoever reads only this; not yet safe to show."""
    title: str
    severity: Severity | None = None
    """Severity of a finding."""
    file: str | None = None
    """The finding's file, as the training named it."""
    line: int | None = None


@dataclass(frozen=True)
class Gate:
    """All checks of one run or trace."""

    path: Path
    against: Path | None
    """The baseline; None where there is none."""
    cwd: str | None
    """The directory that the training ran in; None where that is unknown."""
    checks: tuple[Check, ...]
    limits: CheckLimits
    differences: tuple[Difference, ...] = ()
    """What has changed since the baseline."""
    in_force: tuple[str, ...] = ()
    """Arguments of the training's loader and optimizer that have changed: ``num_workers 0 -> 2``.
    """
    ratio: float | None = None
    """Step of the baseline over the step; None where it is unknown."""
    history: History | None = None
    """The run among all earlier ones of its command; None where it was not held against them."""

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that fail; uncertain ones too, if that is asked for."""
        return tuple(check for check in self.checks if self.fails(check))

    @property
    def verdict(self) -> Verdict:
        """A failed check outweighs one that cannot be judged."""
        if self.failed:
            return Verdict.FAILED
        unknown = any(check.state is State.NOT_JUDGED for check in self.checks)
        return Verdict.NOT_JUDGED if unknown else Verdict.PASSED

    def fails(self, check: Check) -> bool:
        """Whether ``check`` makes the verdict ``FAILED``."""
        uncertain = check.state is State.NOT_CERTAIN and self.limits.inconclusive_fails
        return check.state is State.FAILED or uncertain


@dataclass(frozen=True)
class Repository:
    """The directory tree that annotations point into."""

    root: Path

    def inside(self, file: str | None, cwd: str | None) -> str | None:
        """``file`` relative to the root, with slashes; None where it is not in there.

        A training of another machine names its files by the directory ``cwd`` that it ran in there:
        they are found again where they are as deep or deeper below the root here."""
        if not file:
            return None
        path = Path(file)
        if not path.is_absolute():
            path = Path(cwd or self.root) / path
        try:
            root = self.root.resolve()
            here = path.resolve()
            if here.is_relative_to(root):
                return here.relative_to(root).as_posix()
            return self._moved(path, Path(cwd)) if cwd else None
        except (OSError, ValueError, RuntimeError):
            # A name from a trace may hold anything; what is no path here is in no repository.
            return None

    def shown(self, file: str | None, cwd: str | None) -> str | None:
        """The path by ``inside``, or ``file`` itself where it is not in the repository."""
        return self.inside(file, cwd) or file

    def _moved(self, path: Path, cwd: Path) -> str | None:
        """The longest end of ``path`` that is a file here, at least the part below ``cwd``."""
        if ".." in path.parts or not path.is_relative_to(cwd):
            return None
        fewest = len(path.relative_to(cwd).parts)
        for first in range(1, len(path.parts) - fewest + 1):
            end = Path(*path.parts[first:])
            if (self.root / end).is_file():
                return end.as_posix()
        return None


def repository_around(directory: Path, workspace: str | None) -> Repository:
    """The repository of ``workspace``, which a runner names, if ``directory`` is in there, else the
    one that ``directory`` lies in, else that directory."""
    here = directory.resolve()
    if workspace and here.is_relative_to(Path(workspace).resolve()):
        return Repository(Path(workspace).resolve())
    root = next((above for above in (here, *here.parents) if (above / ".git").exists()), here)
    return Repository(root)


def step_time_check(history: History, limits: CheckLimits) -> Check:
    """Failed where the step is longer than is allowed, and longer than usual beyond noise."""
    check = partial(_of_step, limits)
    now, level = history.now, history.level
    if level is None or not now.usual_ns:
        return check("unknown", State.NOT_CERTAIN, now.unusable)
    if level.usual_ns is None or level.noise is None:
        why = f"{fmt.several(len(history.before), 'earlier run')} of {FEWEST_RUNS} to compare with"
        return check(f"usual {fmt.duration(now.usual_ns)}", State.NOT_CERTAIN, why)
    change = now.usual_ns / level.usual_ns - 1
    step = f"usual {fmt.duration(round(level.usual_ns))} -> {fmt.duration(now.usual_ns)}"
    value = f"{step}, {_change_text(change)}"
    usual = len(history.before) if level.since is None else level.since
    by = f"{fmt.several(usual, 'earlier run')}, which differ by up to {fmt.percent(level.noise)}"
    if change <= limits.max_regression:
        return check(value, State.OK, f"{_change_text(change)} than {by}")
    if level.place is not Standing.SLOWER:
        return check(value, State.NOT_CERTAIN, f"{_change_text(change)} than {by}")
    since = f"slower since {history.first_slow.run_id}" if history.first_slow else "slower"
    return check(value, State.FAILED, f"{_change_text(change)} than {by}; {since}")


def _of_step(limits: CheckLimits, found: str, state: State, message: str) -> Check:
    limit = f"at most {fmt.percent(limits.max_regression)} slower"
    return Check(STEP_TIME, found, limit, state, message, STEP_TIME)


def ratio_of(history: History) -> float | None:
    """Usual step of the earlier runs over that of the run; None where either is unknown."""
    level = history.level
    if level is None or level.usual_ns is None or not history.now.usual_ns:
        return None
    return level.usual_ns / history.now.usual_ns


def history_lines(history: History) -> list[str]:
    """The runs compared with, and how many were left out and why. Not yet safe to show."""
    runs = fmt.several(len(history.before), "earlier run")
    lines = [f"against {runs} of this command"]
    reasons = Counter(run.why for run in history.left_out)
    lines += [f"  left out: {fmt.several(count, 'run')}, {why}" for why, count in reasons.items()]
    if history.level and (first := history.first_slow) and (last := history.last_before):
        lines.append(f"slower since {first.run_id}, after {last.run_id}")
    return lines


def _change_text(change: float) -> str:
    if round(change, 3) == 0:
        return "no difference"
    return f"{fmt.percent(abs(change))} {'slower' if change > 0 else 'faster'}"


FINDINGS = "findings"
NO_BASELINE = "no earlier run of this command"


def judge(
    path: Path,
    facts: Facts,
    limits: CheckLimits,
    *,
    against: Path | None = None,
    before: Facts | None = None,
    needs_baseline: bool = False,
    history: History | None = None,
) -> Gate:
    """Every check of ``facts``, the run or trace at ``path``.

    ``before`` is the baseline, that at ``against``. Then findings fail only if it does not have
    them, and the step is compared. ``needs_baseline`` without one: neither is certain. With
    ``history`` the step is compared with all runs in there, and not with that of ``before``."""
    cwd = facts.manifest.cwd if facts.manifest else None
    if facts.manifest is not None and not facts.manifest.status.is_over:
        message = "the training is still running: check it when it has ended"
        going = Check("run", "still running", "ended", State.NOT_JUDGED, message, "run")
        return Gate(path, against, cwd, (going,), limits)
    needs_baseline = needs_baseline or before is not None
    checks = list(_findings(facts, before, limits, needs_baseline=needs_baseline))
    if history is not None:
        checks.append(step_time_check(history, limits))
        changed = history.differences, history.changes, ratio_of(history), history
        return Gate(path, against, cwd, tuple(checks), limits, *changed)
    result = compare(before, facts) if before is not None else None
    if needs_baseline:
        checks.append(_step_time(result, limits))
    return Gate(
        path,
        against,
        cwd,
        tuple(checks),
        limits,
        result.differences if result else (),
        result.changes if result else (),
        result.speedup if result else None,
    )


def _findings(
    facts: Facts, before: Facts | None, limits: CheckLimits, *, needs_baseline: bool
) -> Iterator[Check]:
    least = limits.fail_on
    if least is None:
        return
    word = least.name.lower()
    limit = f"no new {word}" if needs_baseline else f"no {word}"
    limit += "" if least is Severity.CRITICAL else " or worse"
    causes = [row for row in diagnosis(facts).findings if row.severity is not Severity.HEALTHY]
    for finding in causes:
        state, more = State.OK, ""
        if finding.severity >= least:
            state, more = _beside(finding, before, least) if needs_baseline else (State.FAILED, "")
        yield _of_finding(finding, limit, state, more)
    unknown = _too_early(facts)
    if unknown and not any(finding.severity >= least for finding in causes):
        yield Check(FINDINGS, "unknown", limit, State.NOT_JUDGED, unknown, FINDINGS)
    elif not causes:
        yield Check(FINDINGS, "none", limit, State.OK, "no finding", FINDINGS)


def _too_early(facts: Facts) -> str:
    """Why a critical finding cannot be excluded yet; empty where it can."""
    steps = diagnosis(facts).steady_steps
    if facts.run is not None and steps < MANY_STEPS:
        return f"{steps} of {MANY_STEPS} steady steps are too few to judge"
    return "a trace of one step is too little to judge" if facts.run is None and steps == 1 else ""


def _beside(finding: Finding, before: Facts | None, least: Severity) -> tuple[State, str]:
    """Whether a finding is new, with a remark where that is not plain."""
    if before is None:
        return State.NOT_CERTAIN, NO_BASELINE
    earlier = (other for other in diagnosis(before).findings if other.severity >= least)
    if _cause(finding) in map(_cause, earlier):
        return State.OK, "in the baseline too"
    if unknown := _too_early(before):
        return State.NOT_CERTAIN, f"whether the baseline has it is unknown: {unknown}"
    return State.FAILED, "not in the baseline"


def _cause(finding: Finding) -> tuple[str, str | None]:
    """The rule and the file or operator: the source has changed since the baseline, so its lines
    may lie in other functions now."""
    place = finding.place
    if place is None:
        return finding.rule, None
    return finding.rule, Path(place.file).name if place.file else place.operator


def _of_finding(finding: Finding, limit: str, state: State, more: str) -> Check:
    severity = severity_name(finding.severity)
    cost = ""
    if finding.cost_ns and finding.step_ns:
        part = f"{fmt.duration(finding.cost_ns)} of {fmt.duration(finding.step_ns)}"
        cost = f", {part} ({fmt.percent(finding.share)})"
    answer = answer_to(finding)
    message = f"{finding.headline}{f' To do: {answer}.' if answer else ''}"
    return Check(
        finding_key(finding),
        f"{severity}{cost}",
        limit,
        state,
        f"{message} ({more})" if more else message,
        f"{finding.rule} ({severity})",
        finding.severity,
        finding.place.file if finding.place else None,
        finding.place.line if finding.place else None,
    )


def _step_time(result: Comparison | None, limits: CheckLimits) -> Check:
    allowed = limits.max_regression
    check = partial(_of_step, limits)
    if result is None:
        return check("unknown", State.NOT_CERTAIN, f"{NO_BASELINE}: nothing to compare with")
    value = _change(result)
    if result.verdict is comparison.Verdict.INCONCLUSIVE or not result.speedup:
        return check(value, State.NOT_CERTAIN, result.reason)
    if 1 / result.speedup - 1 <= allowed:
        return check(value, State.OK, result.reason)
    state = State.FAILED if result.verdict is comparison.Verdict.SLOWER else State.NOT_CERTAIN
    return check(value, state, f"{value}: {result.reason}")


def _change(result: Comparison) -> str:
    """``mean 44 ms -> 47 ms, 6.8 % slower``: of the mean or the usual step, as the comparison."""
    first, second = result.steps
    if first is None or second is None or not result.speedup:
        return "unknown"
    name, before, after = "mean", first.mean, second.mean
    # The comparison takes the one that changed less.
    if abs(before / after - result.speedup) > abs(first.usual / second.usual - result.speedup):
        name, before, after = "usual", first.usual, second.usual
    change = _change_text(1 / result.speedup - 1)
    return f"{name} {fmt.duration(before)} -> {fmt.duration(after)}, {change}"


NEWEST, HISTORY = "newest", "history"
"""Named in place of a baseline."""
