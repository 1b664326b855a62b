"""The checks of a run or trace as plain values."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

import msgspec
from msgspec import Meta

from perftui.experiments.conditions import Difference
from perftui.experiments.history import History, LeftOut, PastRun, Standing
from perftui.report.check.model import Gate, Repository, State, Verdict
from perftui.report.findings_as_json import SeverityName, severity_name
from perftui.report.output_text import SCHEMA, InForce, Ratio, Schema, Share
from perftui.trace.remote import named


class CheckRow(TypedDict):
    """One limit, and what was found."""

    name: Annotated[str, Meta(description="The key of a finding, `findings` or `step time`.")]
    found: str
    limit: str
    state: State
    fails: Annotated[
        bool, Meta(description="Whether it fails the whole; `inconclusive` decides if not certain.")
    ]
    message: str
    severity: Annotated[SeverityName | None, Meta(description="Of a finding.")]
    file: Annotated[
        str | None, Meta(description="Relative to the repository, if the file is in there.")
    ]
    line: int | None


class SeriesRun(TypedDict):
    """One run of the command."""

    run: str
    started_ns: Annotated[int, Meta(description="Since the epoch.")]
    step_ns: Annotated[
        int | None, Meta(description="Mean steady step without the slowest and fastest tenth.")
    ]
    commit: Annotated[str | None, Meta(description="With `+` if there were uncommitted changes.")]


class HistoryOutput(TypedDict):
    """All earlier runs of the command that the run was held against."""

    place: Annotated[
        Standing | None, Meta(description="Of the run among them; null if its steps say nothing.")
    ]
    usual_ns: Annotated[
        float | None, Meta(description="Median step of the usual runs; null with too few of them.")
    ]
    noise: Annotated[
        float | None,
        Meta(description="By which share a step has to be longer to be slower than usual."),
    ]
    slower_since: Annotated[
        str | None, Meta(description="The first run since which they are slower, if they are.")
    ]
    last_before: Annotated[
        str | None, Meta(description="The run before that one, otherwise the newest earlier run.")
    ]
    runs: Annotated[list[SeriesRun], Meta(description="The earlier runs, the oldest first.")]
    left_out: Annotated[
        list[LeftOut], Meta(description="Earlier runs that cannot be compared, and why.")
    ]


class CheckOutput(TypedDict):
    """`perftui check`: whether a run or trace is within its limits."""

    schema: Schema
    path: str
    against: Annotated[str | None, Meta(description="The baseline; null if there is none.")]
    verdict: Verdict
    fail_on: Annotated[
        SeverityName | None,
        Meta(description="The least severity that fails; null if findings are not checked."),
    ]
    max_regression: Share
    inconclusive: Annotated[
        Literal["pass", "fail"], Meta(description="What a check counts as if it is not certain.")
    ]
    checks: list[CheckRow]
    ratio: Ratio
    differences: Annotated[
        list[Difference],
        Meta(
            description=(
                "What has changed since the baseline, or with a history where it became slower."
            )
        ),
    ]
    changes: InForce
    history: Annotated[HistoryOutput | None, Meta(description="Null without `--against history`.")]


def as_object(gate: Gate, repository: Repository) -> CheckOutput:
    """The checks as JSON; unknown is null."""
    limits = gate.limits
    return {
        "schema": SCHEMA,
        "path": named(str(gate.path)),
        "against": named(str(gate.against)) if gate.against else None,
        "verdict": gate.verdict,
        "fail_on": severity_name(limits.fail_on) if limits.fail_on is not None else None,
        "max_regression": limits.max_regression,
        "inconclusive": "fail" if limits.inconclusive_fails else "pass",
        "checks": [
            {
                "name": check.name,
                "found": check.found,
                "limit": check.limit,
                "state": check.state,
                "fails": gate.fails(check),
                "message": check.message,
                "severity": severity_name(check.severity) if check.severity is not None else None,
                "file": repository.shown(check.file, gate.cwd),
                "line": check.line,
            }
            for check in gate.checks
        ],
        "ratio": gate.ratio,
        "differences": msgspec.to_builtins(gate.differences),
        "changes": list(gate.in_force),
        "history": _history(gate.history) if gate.history else None,
    }


def _history(history: History) -> HistoryOutput:
    level, first, last = history.level, history.first_slow, history.last_before
    return {
        "place": level.place if level else None,
        "usual_ns": level.usual_ns if level else None,
        "noise": level.noise if level else None,
        "slower_since": first.run_id if first else None,
        "last_before": last.run_id if last else None,
        "runs": [_run(run) for run in history.before],
        "left_out": msgspec.to_builtins(history.left_out),
    }


def _run(run: PastRun) -> SeriesRun:
    manifest = run.conditions.manifest
    dirty = "+" if manifest.git_dirty else ""
    return {
        "run": run.run_id,
        "started_ns": manifest.started_ns,
        "step_ns": run.usual_ns,
        "commit": f"{manifest.git_commit}{dirty}" if manifest.git_commit else None,
    }
