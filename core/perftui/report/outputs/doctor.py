"""What `doctor` prints as JSON."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

from perftui.doctor.row import State
from perftui.report.outputs.common import Schema


class DoctorRow(TypedDict):
    """The result of one check."""

    topic: str
    state: Annotated[
        State,
        Meta(description="fails: profiling does not work; warn: part of it does not work."),
    ]
    found: str
    advice: Annotated[
        str | None, Meta(description="What to do, as a sentence; null if there is nothing to do.")
    ]


class DoctorOutput(TypedDict):
    """`perftui doctor`: what keeps profiling from working here."""

    schema: Schema
    python: Annotated[str, Meta(description="The interpreter that trainings would run in.")]
    fails: Annotated[int, Meta(description="Rows that fail; the exit code is 1 if there are any.")]
    rows: Annotated[list[DoctorRow], Meta(description="Worst first.")]
