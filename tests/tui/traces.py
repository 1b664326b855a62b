"""Traces with known contents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

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

    Track 0 is a thread, track 1 a stream of GPU 0. Times are those of the trace.
    """
    made = []
    for name, track, start, duration, *more in events:
        make = gpu if track else cpu
        made.append(make(name, start / 1000, duration / 1000, **(more[0] if more else {})))
    trace = trace_of(named(1, "main"), *made)
    shapes: dict[str, Any] = {"read_arguments": lambda row: {"Input Dims": [[row, 8]]}}
    return replace(trace, start=trace.start + trace.origin, origin=0, **shapes)
