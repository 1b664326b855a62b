"""The checks of a run or trace as plain values."""

from __future__ import annotations

import msgspec

from perftui.experiments.history import History, PastRun
from perftui.report.check.model import Gate
from perftui.report.check.repository import Repository
from perftui.report.finding_json import name_of
from perftui.report.outputs.check import CheckOutput, HistoryOutput, SeriesRun
from perftui.trace.remote import named

SCHEMA = 1


def as_object(gate: Gate, repository: Repository) -> CheckOutput:
    """The checks as JSON; unknown is null."""
    limits = gate.limits
    return {
        "schema": SCHEMA,
        "path": named(str(gate.path)),
        "against": named(str(gate.against)) if gate.against else None,
        "verdict": gate.verdict,
        "fail_on": name_of(limits.fail_on) if limits.fail_on is not None else None,
        "max_regression": limits.max_regression,
        "inconclusive": "fail" if limits.inconclusive_fails else "pass",
        "checks": [
            {
                "name": one.name,
                "found": one.found,
                "limit": one.limit,
                "state": one.state,
                "fails": gate.fails(one),
                "message": one.message,
                "severity": name_of(one.severity) if one.severity is not None else None,
                "file": repository.shown(one.file, gate.cwd),
                "line": one.line,
            }
            for one in gate.checks
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
        "runs": [_run(one) for one in history.before],
        "left_out": msgspec.to_builtins(history.left_out),
    }


def _run(one: PastRun) -> SeriesRun:
    manifest = one.conditions.manifest
    dirty = "+" if manifest.git_dirty else ""
    return {
        "run": one.run_id,
        "started_ns": manifest.started_ns,
        "step_ns": one.usual_ns,
        "commit": f"{manifest.git_commit}{dirty}" if manifest.git_commit else None,
    }
