"""What `probe` prints as JSON."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from perftui.probe.model import Ceiling, NotMeasured
from perftui.report.outputs.common import Schema


class CeilingOutput(TypedDict):
    """One ceiling of the machine."""

    name: Ceiling
    value: Annotated[
        float, Meta(description="Per second, in `unit`: the best of the medians of the rounds.")
    ]
    low: Annotated[float, Meta(description="The lowest of those medians.")]
    unit: Literal["B/s", "FLOP/s"]
    repeats: Annotated[int, Meta(description="Measurements, in all rounds together.")]
    how: Annotated[str, Meta(description="What was done, in words.")]


class ProbeOutput(TypedDict):
    """`perftui probe`: what this machine can do at most."""

    schema: Schema
    host: str
    gpu: Annotated[str | None, Meta(description="Null where the CPU was measured.")]
    driver: str | None
    torch: str | None
    measured_ns: Annotated[int, Meta(description="When, nanoseconds since 1970.")]
    path: Annotated[str, Meta(description="What the disk was read below.")]
    rates: list[CeilingOutput]
    not_measured: list[NotMeasured]
    other_programs_cores: Annotated[
        float, Meta(description="Cores that other programs kept busy meanwhile, in the mean.")
    ]
    disturbed: Annotated[
        bool, Meta(description="Whether that is so much that the machine can do more.")
    ]
    kept: Annotated[
        str | None, Meta(description="The file that keeps it; null where nothing is kept.")
    ]
