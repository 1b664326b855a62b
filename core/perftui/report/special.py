"""Reports of files that are no traces: memory snapshots and kernel metrics."""

from __future__ import annotations

from pathlib import Path

import msgspec

from perftui.report.as_json import SCHEMA, encode_object
from perftui.report.kernel_metrics import MetricsReport, render_metrics, report_metrics
from perftui.report.kind import Kind
from perftui.report.memory import MemoryReport, report_memory
from perftui.report.memory_text import render_memory
from perftui.trace.memory_snapshot.load import load_memory_snapshot
from perftui.trace.ncu.load import load_ncu


def special_report(path: Path, kind: Kind, *, as_json: bool) -> str:
    """The report of a file of this kind, as text or JSON.

    In JSON sizes are bytes, times nanoseconds, throughputs percent, and unknown is null.

    Raises:
        TraceError: it cannot be read.
    """
    made: MemoryReport | MetricsReport
    if kind is Kind.MEMORY_SNAPSHOT:
        made = report_memory(load_memory_snapshot(path))
        return _encoded(made, kind) if as_json else render_memory(made)
    made = report_metrics(load_ncu(path))
    return _encoded(made, kind) if as_json else render_metrics(made)


def _encoded(made: MemoryReport | MetricsReport, kind: Kind) -> str:
    fields = msgspec.to_builtins(made, enc_hook=str)
    return encode_object({"schema": SCHEMA, "kind": kind.name.lower(), **fields})
