"""What `isolate` prints as JSON."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

from perftui.experiments.isolate.experiments import Side
from perftui.report.outputs.common import Schema

Middle = Annotated[
    int | None, Meta(description="The middle of the runs, ns; null where there is none.")
]


class SideOutput(TypedDict):
    """The training with one side left out."""

    side: Side
    what: Annotated[str, Meta(description="What was done, in words.")]
    step_ns: Middle
    runs_ns: Annotated[
        list[int],
        Meta(description="Of each run, ns of a step; of a loader alone, of the batches of one."),
    ]
    at_most: Annotated[
        float | None,
        Meta(description="The step as it is over that: what losing the whole side would gain."),
    ]
    sentence: str
    problem: Annotated[str | None, Meta(description="Why there is no time of it.")]


class IsolationOutput(TypedDict):
    """`perftui isolate`: what each side of a training costs."""

    schema: Schema
    run: Annotated[str, Meta(description="Identifier of the run that was repeated.")]
    step_ns: Middle
    runs_ns: Annotated[list[int], Meta(description="A step as it is, ns, in each run.")]
    sides: list[SideOutput]
