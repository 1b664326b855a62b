"""The checks of a run or trace as plain values."""

from __future__ import annotations

import msgspec

from perftui.report.check.model import Gate
from perftui.report.check.repository import Repository
from perftui.report.finding_json import name_of
from perftui.report.outputs.check import CheckOutput

SCHEMA = 1


def as_object(gate: Gate, repository: Repository) -> CheckOutput:
    """The checks as JSON; unknown is null."""
    limits = gate.limits
    return {
        "schema": SCHEMA,
        "path": str(gate.path),
        "against": str(gate.against) if gate.against else None,
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
    }
