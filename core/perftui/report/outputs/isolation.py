"""What `isolate` prints as JSON."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

from perftui.experiments.isolate import Side
from perftui.report.outputs.common import Schema

Middle = Annotated[int | None, Meta(description="Median of the runs, ns; null if there is none.")]


class SideOutput(TypedDict):
    """The training with one part left out."""

    side: Side
    what: Annotated[str, Meta(description="What was done, in words.")]
    step_ns: Middle
    runs_ns: Annotated[
        list[int],
        Meta(
            description="Per run, ns per step; for the loader alone, ns for the batches of a step."
        ),
    ]
    at_most: Annotated[
        float | None,
        Meta(description="The unchanged step time over that: the speed-up without the whole part."),
    ]
    sentence: str
    problem: Annotated[str | None, Meta(description="Why it has no time.")]


class IsolationOutput(TypedDict):
    """`perftui isolate`: what each part of a training costs at most."""

    schema: Schema
    run: Annotated[str, Meta(description="Identifier of the run that was repeated.")]
    step_ns: Middle
    runs_ns: Annotated[list[int], Meta(description="The unchanged step time, ns, in each run.")]
    sides: list[SideOutput]
