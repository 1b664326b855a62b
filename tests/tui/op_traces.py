"""A trace with all that the Ops screen can tell: shapes, modules, lines, kernels and grids."""

from __future__ import annotations

from pathlib import Path

from perftui.analysis.model import TraceAnalysis
from tests.traces.builder import TraceBuilder, us

HOSTILE = "evil\x1b[31m[bold]op"
GEMM = "ampere_sgemm_128x64_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>"


def op_story(details: bool = True) -> TraceBuilder:
    """Two calls of a layer, an addition, and an operator with a hostile name.

    Without ``details`` neither shapes nor Python frames nor grids are recorded.
    """
    story = TraceBuilder()
    for at, rows in ((0, 64), (us(1_000), 8)):
        sizes = {"Input Dims": [[32], [rows, 128], [128, 32]]} if details else {}
        grid = {"grid": [rows, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": rows}
        if details:
            story.at(at).frame("train.py(12): step", us(900))
            story.at(at + us(10)).frame("nn.Module: Linear_0", us(700))
        story.at(at + us(20)).op("aten::linear", us(600), **sizes)
        story.at(at + us(100)).op("aten::addmm", us(400), **sizes).at(at + us(200))
        story.launch(GEMM, us(20 * rows), starts=at + us(300), **(grid if details else {}))
    story.at(us(3_000)).op("aten::add", us(100))
    story.at(us(3_020)).launch(ADD, us(50), starts=us(3_100))
    return story.at(us(4_000)).op(HOSTILE, us(10)).kernel(ADD, us(10), starts=us(5_000))


def write_op_trace(folder: Path, *, details: bool = True) -> Path:
    """That trace as a file below ``folder``."""
    return op_story(details).write(folder / "layer.pt.trace.json")


def op_analysis(*, details: bool = True) -> TraceAnalysis:
    """Its tables."""
    return op_story(details).analysis()
