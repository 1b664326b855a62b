"""How much of the GPU its kernels fill, by the blocks that they are launched with."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perftui.analysis.kernels.category import Category
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import Facts, UnknownError, fact, trace_fact
from perftui.facts.gpu.card import trace_card
from perftui.facts.kernel.step_kernels import StepKernels, step_kernels
from perftui.facts.place import Place
from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import Int64, TraceError

MOST_READ = 600
RUNS = 3
"""Kernels whose launches are read, in so many runs evenly chosen of those that there are: each run
reads a piece or two of the file, 2 ms each."""

_NOT_OF_THE_BATCH = (Category.COMMUNICATION, Category.OPTIMIZER)
"""Kernels that are as long for any batch."""


FEW = 0.5
"""Blocks for each multiprocessor, up to which a kernel fills few of them. Good kernels may have
slightly fewer than one for each: matrix products on 132 of them often have 128."""


MUCH = 0.30
"""Share of the time of all kernels from which on the batch is called small. A ResNet-50 on an H100
has 0.43 of it in such kernels with 4 images a step, less than 0.12 with 128."""


@dataclass(frozen=True)
class Fill:
    """Kernels launched with so few blocks that half of the card's multiprocessors have none."""

    share: float
    """Of the time of all kernels of a step, 0 to 1."""
    empty: float
    """Share of that time in which the multiprocessors without a block would have computed, too."""
    multiprocessors: int
    example: str
    """Name of the longest that was read; empty without any."""
    place: Place
    """Where that was launched."""


@trace_fact
def fill(analysis: TraceAnalysis) -> Fill:
    """How much of the time kernels with few blocks take.

    Raises:
        UnknownError: the trace does not say how kernels were launched, or on which card.
    """
    found, card = step_kernels(analysis), trace_card(analysis)
    if not card.multiprocessors:
        raise UnknownError("the trace does not record how many multiprocessors the card has")
    read = found.where(_chosen(len(found)))
    blocks = _blocks(read)
    known, duration = blocks > 0, read.duration
    if not known.any() or not duration[known].sum():
        raise UnknownError("the trace does not record the number of blocks per kernel launch")
    few = known & (blocks <= FEW * card.multiprocessors) & ~read.are(*_NOT_OF_THE_BATCH)
    whole, time = int(duration[known].sum()), duration[few]
    unused = 1 - blocks[few] / card.multiprocessors
    return Fill(
        share=int(time.sum()) / whole,
        empty=float((time * unused).sum()) / whole,
        multiprocessors=card.multiprocessors,
        example=_longest(read.where(few)),
        place=read.where(few).place if few.any() else Place(),
    )


def _chosen(count: int) -> Int64:
    """Which of ``count`` kernels are read."""
    if count <= MOST_READ:
        return np.arange(count)
    length = MOST_READ // RUNS
    first = np.linspace(0, count - length, RUNS).astype(np.int64)
    return (first[:, None] + np.arange(length)).ravel()


def _longest(found: StepKernels) -> str:
    if not len(found):
        return ""
    return found.analysis.trace.name_of(int(found.rows[np.argmax(found.duration)]))


@fact
def fills_few(facts: Facts) -> bool:
    """Whether kernels with few blocks are known to take much of the time."""
    found = fill.or_none(facts)
    return found is not None and found.share >= MUCH


def _blocks(found: StepKernels) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Blocks of each kernel; 0 where that is not known."""
    trace = found.analysis.trace
    of_row: dict[int, int] = {}
    try:
        for row, arguments in arguments_of(trace, found.rows):
            grid = arguments.get("grid", [arguments.get(f"grid{side}") for side in "XYZ"])
            if isinstance(grid, list) and all(isinstance(each, int) for each in grid):
                of_row[row] = math.prod(grid)
    except TraceError as error:
        raise UnknownError(str(error)) from error
    return np.array([of_row.get(row, 0) for row in found.rows.tolist()], dtype=np.int64)
