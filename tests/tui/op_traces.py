"""A trace with all that the Ops screen can tell: shapes, modules, lines, kernels and grids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perftui.analysis.analyse import analyse
from perftui.analysis.model import TraceAnalysis
from perftui.trace.load import load_trace

HOSTILE = "evil\x1b[31m[bold]op"


def _host(name: str, at: int, lasting: int, kind: str = "cpu_op", **more: Any) -> dict[str, Any]:
    return {
        "ph": "X", "cat": kind, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": lasting,
        "args": more,
    }  # fmt: skip


def _kernel(name: str, at: int, lasting: int, number: int, **more: Any) -> dict[str, Any]:
    place = {"correlation": number, "device": 0, "stream": 7}
    return {
        "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at, "dur": lasting,
        "args": {**place, **more},
    }  # fmt: skip


def _launched(number: int, at: int) -> dict[str, Any]:
    return _host("cudaLaunchKernel", at, 5, "cuda_runtime", correlation=number)


GEMM = "ampere_sgemm_128x64_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>"


def op_events(details: bool = True) -> list[dict[str, Any]]:
    """Two calls of a layer, an addition, and an operator with a hostile name; times in us.

    Without ``details`` neither shapes nor Python frames nor grids are recorded.
    """
    events = []
    for at, rows in ((0, 64), (1_000, 8)):
        sizes = {"Input Dims": [[32], [rows, 128], [128, 32]]} if details else {}
        if details:
            events += [
                _host("train.py(12): step", at, 900, "python_function"),
                _host("nn.Module: Linear_0", at + 10, 700, "python_function"),
            ]
        events += [
            _host("aten::linear", at + 20, 600, **sizes),
            _host("aten::addmm", at + 100, 400, **sizes),
            _launched(at + 1, at + 200),
        ]
        grid = {"grid": [rows, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": rows}
        events.append(_kernel(GEMM, at + 300, 20 * rows, at + 1, **(grid if details else {})))
    events += [
        _host("aten::add", 3_000, 100),
        _launched(7, 3_020),
        _kernel(ADD, 3_100, 50, 7),
        _host(HOSTILE, 4_000, 10),
        _kernel(ADD, 5_000, 10, 99),
    ]
    return events


def write_op_trace(folder: Path, *, details: bool = True) -> Path:
    """That trace as a file below ``folder``."""
    path = folder / "layer.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": op_events(details)}))
    return path


def op_analysis(folder: Path, *, details: bool = True) -> TraceAnalysis:
    """Its tables."""
    return analyse(load_trace(write_op_trace(folder, details=details)))
