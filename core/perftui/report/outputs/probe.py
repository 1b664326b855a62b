"""What `probe` prints as JSON."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from perftui.probe.ceilings import Ceiling, NotMeasured
from perftui.report.outputs.common import Schema


class CeilingOutput(TypedDict):
    """One ceiling of the machine."""

    name: Ceiling
    value: Annotated[
        float, Meta(description="Per second, in `unit`: the best median of all rounds.")
    ]
    low: Annotated[float, Meta(description="The lowest of those medians.")]
    unit: Literal["B/s", "FLOP/s"]
    repeats: Annotated[int, Meta(description="Number of measurements in all rounds.")]
    how: Annotated[str, Meta(description="What was done, in words.")]


class ProbeOutput(TypedDict):
    """`perftui probe`: the peak rates of this machine."""

    schema: Schema
    host: str
    gpu: Annotated[str | None, Meta(description="Null if the CPU was measured.")]
    driver: str | None
    torch: str | None
    measured_ns: Annotated[int, Meta(description="When, nanoseconds since 1970.")]
    path: Annotated[str, Meta(description="The directory whose disk was read.")]
    rates: list[CeilingOutput]
    not_measured: list[NotMeasured]
    other_programs_cores: Annotated[
        float, Meta(description="Mean number of cores that other programs used meanwhile.")
    ]
    disturbed: Annotated[
        bool, Meta(description="Whether that is enough to lower the measured values.")
    ]
    kept: Annotated[
        str | None, Meta(description="The file that keeps the result; null if it is not kept.")
    ]
