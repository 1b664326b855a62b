"""The recorded runs of a directory as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, TypedDict

from msgspec import Meta

from perftui.experiments.history import Listed
from perftui.report.as_json import SCHEMA
from perftui.report.outputs.common import Schema
from perftui.run.history import RunEntry


class RunOutput(TypedDict):
    """A recorded run; null is what a damaged one does not tell."""

    run: Annotated[str, Meta(description="Its identifier.")]
    path: str
    state: Annotated[str | None, Meta(description="running, exited 0, stopped, ...")]
    started_ns: Annotated[int | None, Meta(description="Nanoseconds since the epoch.")]
    ended_ns: int | None
    command: list[str] | None
    name: Annotated[str | None, Meta(description="The name that was given to it.")]
    host: str | None
    step_ns: Annotated[
        int | None,
        Meta(description="Mean step without the extreme tenths; null if not known or not read."),
    ]
    slower: Annotated[
        float | None,
        Meta(
            description="By which share the step is longer than in earlier runs of its command; "
            "null if it is not, or not certainly."
        ),
    ]
    problem: Annotated[str | None, Meta(description="Why it cannot be read.")]


class RunsOutput(TypedDict):
    """`perftui runs`: the recorded runs of a directory."""

    schema: Schema
    path: Annotated[str, Meta(description="The directory of the runs.")]
    runs: Annotated[list[RunOutput], Meta(description="Newest first.")]


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
