"""Trace files with known contents, as the profiler writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def trace_events(steps: int = 3) -> list[dict[str, Any]]:
    """Steps of 10 ms with a kernel of 4 ms in each, launched from an operator."""
    events: list[dict[str, Any]] = []
    for step in range(steps):
        at = step * 10_000
        host = {"ph": "X", "pid": 1, "tid": 1}
        mark = f"ProfilerStep#{step}"
        events += [
            {**host, "cat": "user_annotation", "name": mark, "ts": at, "dur": 9_990},
            {**host, "cat": "cpu_op", "name": "aten::mm", "ts": at + 100, "dur": 500,
             "args": {"External id": step + 1}},
            {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 200, "dur": 20,
             "args": {"correlation": step + 1, "External id": step + 1}},
            {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "gemm", "ts": at + 400,
             "dur": 4_000, "args": {"correlation": step + 1, "device": 0, "stream": 7,
                                    "External id": step + 1}},
        ]  # fmt: skip
    return events


def write_trace(folder: Path, steps: int = 3, *, gpu: bool = True) -> Path:
    """A trace of so many steps, on one GPU or none, below ``folder``."""
    path = folder / "rank0.pt.trace.json"
    events = [e for e in trace_events(steps) if gpu or e["cat"] in ("cpu_op", "user_annotation")]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path
