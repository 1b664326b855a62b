"""What a trace holds beside its tables, as a report has it."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta

from perftui.analysis.model import GapCause
from perftui.facts.gpu.streams import LaunchDelays, Overlap, StreamWork
from perftui.report.outputs.common import Ns


class DeviceOutput(TypedDict):
    """Activity of one device; times in nanoseconds, ``busy`` is the union over its streams."""

    device: int
    name: str
    kernel_count: int
    kernel_sum: int
    memcpy_count: int
    memcpy_sum: int
    memset_count: int
    memset_sum: int
    start: int
    end: int
    busy: int
    unlinked: int
    idle: int
    span: int


class TraceStepOutput(TypedDict):
    """One step of a trace; its parts sum to it."""

    index: int
    start: Ns
    duration: Ns
    parts_ns: dict[str, int]


class IdleOutput(TypedDict):
    """Idle time of a device by what the launching thread did meanwhile."""

    device: int
    cause: GapCause
    total_ns: Ns
    count: int
    longest_ns: int | None
    longest_start: int | None
    line: str | None


class GapOutput(TypedDict):
    """One gap in which a device did nothing."""

    device: int
    start: Ns
    duration: Ns
    cause: GapCause
    phase: str | None
    operator: str | None
    source: str | None


class TraceOutput(TypedDict):
    """A trace; times in nanoseconds since its start."""

    devices: list[DeviceOutput]
    device_properties: Any
    streams: list[StreamWork]
    steps: list[TraceStepOutput]
    steps_told_by: Annotated[
        str | None,
        Meta(description="What the steps are derived from if the trace does not mark them."),
    ]
    idle_by_cause: list[IdleOutput]
    idle_counts_all_gaps: bool
    gaps: list[GapOutput]
    gaps_total: int
    communication: list[Overlap]
    copies: list[Overlap]
    launches: LaunchDelays | None
    critical_path_ns: dict[str, int] | None
