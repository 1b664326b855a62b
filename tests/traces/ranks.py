"""Traces of several ranks of one training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.traces.builder import TraceBuilder


def meet(ranks: Sequence[TraceBuilder], lasting: int) -> None:
    """An all-reduce of all ranks: each enters when it comes to it, and all leave together."""
    kernels = [rank.all_reduce(0).spans[-1] for rank in ranks]
    for rank, kernel in zip(ranks, kernels, strict=True):
        kernel.end = max(each.start for each in kernels) + lasting
        rank._free[kernel.device, kernel.stream] = kernel.end


def write_ranks(folder: Path, ranks: Sequence[TraceBuilder], base_ns: int = 0) -> Path:
    """The trace of each rank as a file of ``folder``, which is given back."""
    for number, rank in enumerate(ranks):
        told = {"rank": number, "world_size": len(ranks), "backend": "nccl"}
        path = folder / f"rank{number}.pt.trace.json"
        rank.write(path, distributedInfo=told, baseTimeNanoseconds=base_ns)
    return folder
