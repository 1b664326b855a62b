"""What `runs` prints as JSON."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

from perftui.report.outputs.common import Schema


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
