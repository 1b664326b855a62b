"""The recorded runs of a directory as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from perftui.experiments.history import Listed
from perftui.report.as_json import SCHEMA
from perftui.report.outputs.runs import RunOutput, RunsOutput
from perftui.run.history import RunEntry


def runs_object(
    directory: Path, entries: Iterable[RunEntry], judged: Mapping[Path, Listed]
) -> RunsOutput:
    """The runs ``entries`` of ``directory``, in their order; those ``judged`` with their step."""
    rows = [_run(entry, judged.get(entry.root)) for entry in entries]
    return {"schema": SCHEMA, "path": str(directory), "runs": rows}


def _run(entry: RunEntry, judged: Listed | None) -> RunOutput:
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
        "step_ns": judged.run.usual_ns if judged else None,
        "slower": judged.slower if judged else None,
        "problem": entry.problem,
    }
