"""A saved run whose window holds a GPU that waits for a loader of the script beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from perftui.run.layout import RunLayout
from perftui.run.manifest import Status
from tests.tui.recorded import START, write_run

SCRIPT = """\
from torch.utils.data import DataLoader

def train(model, pictures, optimizer):
    loader = DataLoader(pictures, batch_size=128, shuffle=True)
    for batch in loader:
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
"""
LOADER_LINE, COSTLY_LINE = 4, 6
WAITS = (118_000, 126_000, 121_000)
"""For data in each step, us; the GPU idles longer, as the step before ends without it."""

_STEP, _CONVOLUTION, _SUM = 300_000, 90_000, 8_000


def write_gpu_run(folder: Path) -> tuple[Path, Path]:
    """The run, over already, and the script that it ran."""
    script = folder / "train.py"
    script.write_text(SCRIPT)
    # As it was when the run began: a script edited since is not what ran.
    os.utime(script, ns=(START - 10**9, START - 10**9))
    root = write_run(
        folder / ".perftui" / "runs",
        gpu=True,
        script=script,
        loader_line=LOADER_LINE,
        cwd=str(folder),
        status=Status.EXITED,
        exit_code=0,
        ended_ns=START + 10**11,
    )
    window = RunLayout(root).rank(0).window(100)
    window.parent.mkdir()
    window.write_text(json.dumps({"schemaVersion": 1, "traceEvents": window_events()}))
    return root, script


def window_events() -> list[dict[str, Any]]:
    """Steps that wait for data, then convolve and sum up on the GPU."""
    events: list[dict[str, Any]] = []
    for step, wait in enumerate(WAITS):
        at = step * _STEP
        go = at + wait + 2_000
        events += [
            _host("user_annotation", f"ProfilerStep#{100 + step}", at, _STEP - 1_000),
            _host("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                  at + 1_000, wait),
            *_operator("aten::conv2d", "conv_kernel", 2 * step + 1, go, (go + 300, _CONVOLUTION)),
            *_operator("aten::sum", "reduce_kernel", 2 * step + 2, go + 2_000,
                       (go + 350 + _CONVOLUTION, _SUM)),
        ]  # fmt: skip
    return events


def _operator(
    name: str, kernel: str, number: int, at: int, on_gpu: tuple[int, int]
) -> list[dict[str, Any]]:
    begins, lasts = on_gpu
    place = {"correlation": number, "device": 0, "stream": 7}
    return [
        _host("python_function", f"train.py({COSTLY_LINE}): train", at - 50, 1_500),
        _host("cpu_op", name, at, 1_000),
        _host("cuda_runtime", "cudaLaunchKernel", at + 100, 20, correlation=number),
        {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": kernel, "ts": begins,
         "dur": lasts, "args": place},
    ]  # fmt: skip


def _host(kind: str, name: str, at: int, lasting: int, **more: Any) -> dict[str, Any]:
    return {
        "ph": "X", "cat": kind, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": lasting,
        "args": more,
    }  # fmt: skip
