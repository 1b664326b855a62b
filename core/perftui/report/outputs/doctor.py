"""What `doctor` prints as JSON."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

from perftui.doctor.row import State
from perftui.report.outputs.common import Schema


class DoctorRow(TypedDict):
    """What was found about one topic."""

    topic: str
    state: Annotated[
        State,
        Meta(description="fails keeps profiling from working, warn costs a part of it."),
    ]
    found: str
    advice: Annotated[
        str | None, Meta(description="What to do, a sentence; null where nothing has to be done.")
    ]


class DoctorOutput(TypedDict):
    """`perftui doctor`: what would keep profiling from working here."""

    schema: Schema
    python: Annotated[str, Meta(description="The interpreter that trainings would run in.")]
    fails: Annotated[int, Meta(description="Rows that fail; the exit code is 1 where there are.")]
    rows: Annotated[list[DoctorRow], Meta(description="Worst first.")]
