"""The recorded runs of a directory as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from perftui.report.as_json import SCHEMA
from perftui.report.outputs.runs import RunOutput, RunsOutput
from perftui.run.history import RunEntry


def runs_object(directory: Path, entries: Iterable[RunEntry]) -> RunsOutput:
    """The runs ``entries`` of ``directory``, in their order."""
    return {"schema": SCHEMA, "path": str(directory), "runs": [_run(entry) for entry in entries]}


def _run(entry: RunEntry) -> RunOutput:
    manifest = entry.manifest
    return {
        "run": entry.run_id,
        "path": str(entry.root),
        "state": manifest.state if manifest else None,
        "started_ns": manifest.started_ns if manifest else None,
        "ended_ns": manifest.ended_ns if manifest else None,
        "command": list(manifest.command) if manifest else None,
        "name": manifest.name if manifest else None,
        "host": manifest.host if manifest else None,
        "problem": entry.problem,
    }
