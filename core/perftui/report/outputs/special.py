"""What `report` prints as JSON of files that are no traces: memory snapshots and kernel metrics."""

from __future__ import annotations

from typing import Literal, TypedDict

from perftui.report.kernel_metrics import MeasuredRow
from perftui.report.memory import DeviceMemory
from perftui.report.outputs.common import Redacted, Schema


class MemoryOutput(TypedDict):
    """`perftui report` of a memory snapshot: what holds GPU memory, bytes."""

    schema: Schema
    kind: Literal["memory_snapshot"]
    redacted: Redacted
    path: str
    devices: list[DeviceMemory]
    notes: list[str]


class MetricsOutput(TypedDict):
    """`perftui report` of Nsight Compute metrics: what limits each kernel."""

    schema: Schema
    kind: Literal["kernel_metrics"]
    redacted: Redacted
    path: str
    launches: int
    kernels: int
    rows: list[MeasuredRow]
    notes: list[str]
