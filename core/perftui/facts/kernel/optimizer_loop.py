"""An optimizer on the GPU that launches kernels for one parameter at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.kernels.category import Category, category_of
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.phases import OPTIMIZER
from perftui.facts.fact import trace_fact
from perftui.facts.kernel.step_kernels import StepKernels, step_kernels
from perftui.trace.model import NONE

MANY_LAUNCHES = 100
"""Launches of one step of the optimizer from which on they are a loop over parameters; foreach and
fused ones of a thousand parameters make less than fifty."""

_STEP = re.compile(r"Optimizer\.step#(\w+)\.step")


@dataclass(frozen=True, eq=False)
class OptimizerLoop:
    """The optimizer of the steady steps."""

    name: str
    """The optimizer's class; empty where nothing in the trace names it."""
    launches: int
    """Launches in one step, without those of kernels for many tensors at once."""
    kernels: StepKernels
    span: int
    """ns from the optimizer's first kernel to the end of its last one, for one step."""


@trace_fact
def optimizer_loop(analysis: TraceAnalysis) -> OptimizerLoop | None:
    """What the trace shows of it; None where it launches few kernels.

    Raises:
        UnknownError: the trace shows no kernels.
    """
    found = step_kernels(analysis)
    mine = found.where(found.in_phase(OPTIMIZER))
    # A graph of many kernels is one launch.
    single = mine.where(~mine.named(lambda name: category_of(name) is Category.OPTIMIZER))
    called = np.zeros(len(analysis.trace), dtype=bool)
    called[single.launch[single.launch != NONE]] = True
    launches = int(np.count_nonzero(called)) // found.steps
    if launches < MANY_LAUNCHES:
        return None
    return OptimizerLoop(_name(analysis), launches, mine, _span(mine))


def _name(analysis: TraceAnalysis) -> str:
    matches = (_STEP.match(name) for name in analysis.trace.names)
    return next((match.group(1) for match in matches if match), "")


def _span(kernels: StepKernels) -> int:
    """From the first kernel to the end of the last one that a range of the optimizer launched, ns
    for one step."""
    trace = kernels.analysis.trace
    ranges = np.flatnonzero(kinds.optimizer(trace) | kinds.marked(trace, OPTIMIZER))
    begins = np.sort(trace.start[ranges])
    of_range = np.searchsorted(begins, trace.start[kernels.launch], side="right")
    starts, ends = trace.start[kernels.rows], trace.ends_of(kernels.rows)
    first = np.full(len(begins) + 1, np.iinfo(np.int64).max)
    last = np.zeros(len(begins) + 1, dtype=np.int64)
    np.minimum.at(first, of_range, starts)
    np.maximum.at(last, of_range, ends)
    return int((last - first)[last > first].sum()) // kernels.steps
