"""Traces with known contents."""

from __future__ import annotations

from pathlib import Path

from tests.traces.builder import TraceBuilder, ms, us


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
