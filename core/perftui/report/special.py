"""Reports of files that are no traces: memory snapshots and kernel metrics."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal, TypedDict

import msgspec

from perftui.report.encode import SCHEMA, Redacted, Schema, encode_object
from perftui.report.kernel_metrics import MeasuredRow, MetricsReport, render_metrics, report_metrics
from perftui.report.kind import Kind
from perftui.report.memory import DeviceMemory, MemoryReport, render_memory, report_memory
from perftui.report.redaction.redact import redaction_at
from perftui.report.redaction.redactor import Redaction
from perftui.trace.memory_pickle import load_memory_snapshot
from perftui.trace.ncu import load_ncu


def special_report(path: Path, kind: Kind, *, as_json: bool, redact: bool = False) -> str:
    """The report of a file of this kind, as text or JSON.

    In JSON sizes are bytes, times nanoseconds, throughputs percent, and unknown is null.

    Raises:
        TraceError: it cannot be read.
        RedactionError: something private would be left in it.
    """
    redaction = redaction_at(path) if redact else None
    text = partial(_text, path, kind, redaction, as_json=as_json)
    return text() if redaction is None else redaction.applied(text)


def _text(path: Path, kind: Kind, redaction: Redaction | None, *, as_json: bool) -> str:
    made: MemoryReport | MetricsReport
    head = redaction.head if redaction else ""
    if kind is Kind.MEMORY_SNAPSHOT:
        made = report_memory(load_memory_snapshot(path))
        text = partial(render_memory, made, head)
    else:
        made = report_metrics(load_ncu(path))
        text = partial(render_metrics, made, head)
    if not as_json:
        return text()
    what = list(redaction.what) if redaction else None
    about = {"schema": SCHEMA, "kind": kind.name.lower(), "redacted": what}
    return encode_object({**about, **msgspec.to_builtins(made, enc_hook=str)})


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
