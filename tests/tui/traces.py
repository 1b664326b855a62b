"""Traces with known contents."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from perftui.analysis.model import TraceAnalysis
from perftui.trace.model import Trace
from tests.traces.builder import TraceBuilder, ms, us
from tests.traces.events import cpu, gpu, named, trace_of


def even_steps(steps: int = 3, *, gpu: bool = True, compute: int = ms(4)) -> TraceBuilder:
    """Steps of 10 ms with one kernel in each, launched from an operator."""

    def step(t: TraceBuilder) -> None:
        begin, known = t.now, {"External id": t.now // ms(10) + 1}
        t.step().pause(us(100)).op("aten::mm", **known)
        if gpu:
            t.pause(us(100)).launch("gemm", compute, call=us(20), starts=begin + us(400), **known)
        t.at(begin + us(600)).close().at(begin + us(9_990)).end().at(begin + ms(10))

    return TraceBuilder().repeat(steps, step)


def write_trace(folder: Path, steps: int = 3, *, gpu: bool = True) -> Path:
    """A trace of so many even steps, on one GPU or none, below ``folder``."""
    return even_steps(steps, gpu=gpu).write(folder / "rank0.pt.trace.json")


def traced(*events: tuple[Any, ...]) -> Trace:
    """A trace from (name, track, start, duration) in ns and keywords for arguments.

    Track 0 is a thread, track 1 a stream of GPU 0. Times are those of the trace."""
    made = []
    for name, track, start, duration, *more in events:
        make = gpu if track else cpu
        made.append(make(name, start / 1000, duration / 1000, **(more[0] if more else {})))
    trace = trace_of(named(1, "main"), *made)
    shapes: dict[str, Any] = {"read_arguments": lambda row: {"Input Dims": [[row, 8]]}}
    return replace(trace, start=trace.start + trace.origin, origin=0, **shapes)


HOSTILE = "evil\x1b[31m[bold]op"
GEMM = "ampere_sgemm_128x64_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>"


def op_story(details: bool = True) -> TraceBuilder:
    """Two calls of a layer, an addition, and an operator with a hostile name.

    Without ``details`` neither shapes nor Python frames nor grids are recorded."""
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
