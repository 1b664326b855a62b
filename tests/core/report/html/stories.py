"""Runs and traces that the pages of the tests are about."""

from __future__ import annotations

import os
from pathlib import Path

from perftui.experiments.journal import Proof, ProvenPair, write_proof
from perftui.experiments.verdict import Outcome
from perftui.report.html.page import render
from perftui.report.report import Report, make_report
from perftui.report.subject import load_subject
from perftui.run.layout import trials_of
from tests.core.report.html.pages import Node, read
from tests.traces.builder import TraceBuilder, ms, us
from tests.tui.recorded import ENDED, START, write_run

NASTY = "</script><img src=x onerror=alert(1)>"


def of(path: Path) -> tuple[Report, Node]:
    """The report of a run or trace, and its page."""
    report = make_report(load_subject(path))
    return report, read(render(report))


def gpu_trace(path: Path, name: str = "gemm") -> Path:
    """Five steps that wait for data, compute, copy and wait for the GPU."""

    def step(trace: TraceBuilder) -> None:
        trace.step().data_wait(ms(5)).forward()
        trace.op(f"aten::{name}").launch(name, ms(3)).close().close()
        trace.launch("ncclDevKernel_AllReduce", ms(1), stream=20).sync().end()

    return TraceBuilder().repeat(5, step).write(path)


def run_with_fix(folder: Path) -> Path:
    """A run that waits for its loader, whose fix is written as a patch and was measured."""
    script = folder / "train.py"
    script.write_text(
        "from torch.utils.data import DataLoader\n\n\ndef loader(pictures):\n"
        "\treturn DataLoader(pictures, batch_size=128, shuffle=True)\n"
    )
    os.utime(script, ns=(START - 10**9, START - 10**9))
    root = write_run(folder / "runs", script=script, loader_line=5, **ENDED)
    said, pairs = "2.10x faster (2.00 to 2.20)", (ProvenPair(2, 1),) * 6
    proof = Proof("loader-workers", "num_workers 0 -> 4", Outcome.FASTER, said, pairs, 1, 2.1)
    write_proof(proof, trials_of(root))
    return root


def many_events(path: Path) -> Path:
    """One step of 4,000 operators and as many kernels."""
    trace = TraceBuilder().step().forward()
    for at in range(4_000):
        trace.op(f"aten::op{at % 7}").launch(f"kernel{at % 5}", us(3)).close()
    return trace.close().sync().end().write(path)
