"""The training allocates memory from the driver in every step, not from PyTorch's cache."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.intervals import union
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.gpu.host_waits import distinct, gaps_of, host_waits
from perftui.facts.gpu.idle import device_steps, rows_place, window_step
from perftui.facts.gpu.memory import gpu_memory
from perftui.facts.place import Place
from perftui.facts.source.lines import at_frames, lines_within
from perftui.facts.step.trace_steps import TraceSteps, gpu_steps
from perftui.trace.model import Int64

_FREES = re.compile(r"Free|Release|Unmap")
_EMPTIES = re.compile(r"torch/\w+/memory\.py:\d+ empty_cache$")


@dataclass(frozen=True, eq=False)
class Allocations:
    """Calls that allocate or free driver memory in the steady steps, without those that set the
    driver up."""

    steps: TraceSteps
    rows: Int64
    time: int
    """ns in all steady steps."""
    frees: int
    """Number of calls that free."""
    in_steps: int
    """Number of steps with any such call."""

    @property
    def gets(self) -> int:
        """Number of calls that allocate."""
        return len(self.rows) - self.frees


@trace_fact
def allocations(analysis: TraceAnalysis) -> Allocations:
    """Allocations of GPU memory by all threads of the training.

    Raises:
        UnknownError: the trace shows no GPU.
    """
    steps, trace = gpu_steps(analysis), analysis.trace
    rows = np.flatnonzero(kinds.allocating(trace)).astype(np.int64)
    rows = rows[steps.inside[rows]]
    rows = rows[~gaps_of(steps, (GapCause.INITIALISATION,)).holds(trace.start[rows])]
    frees = kinds.named(trace, _FREES.search)[rows]
    starts = np.array([part.step.start for part in steps.each], dtype=np.int64)
    of_step = np.searchsorted(starts, trace.start[rows], side="right")
    return Allocations(
        steps,
        rows,
        union(trace.start[rows], trace.ends_of(rows)).total,
        int(np.count_nonzero(frees)),
        len(distinct(of_step)),
    )


OFTEN = 0.2
"""Share of the steps from which allocating is not just initial growth."""


def _churning(facts: Facts) -> Lost | None:
    device_steps(facts)
    calls, step = allocations(facts), window_step(facts)
    if not len(calls.rows) or not _goes_on(facts, calls):
        return None
    count = max(calls.steps.steps, 1)
    # Driver calls take as long without the profiler.
    cost = min(calls.time // count, host_waits(facts).idle // count, step.mean)
    emptied = lines_within(facts, at_frames(_EMPTIES))
    if emptied is not None:
        line = emptied.lines[0]
        place = Place(facts.rank_number, operator="empty_cache", file=line.file, line=line.line)
    else:
        place = rows_place(facts, calls.rows)
    at = f" at {place.short}" if place.source else ""
    why = f"torch.cuda.empty_cache(){at}" if emptied is not None else ""
    how = f"{fmt.several(calls.gets, 'call')} to allocate, {calls.frees} to free"
    return Lost(
        cost,
        step,
        "Allocating memory in the driver takes "
        f"{step.part_of(cost)}{f', after {why}' if why else at}: {how}.",
        (
            Figure.share("in calls of the driver", cost / step.mean, CHURN.limits.warning, place),
            Figure("calls that allocate", calls.gets, "count"),
            Figure("calls that free", calls.frees, "count"),
            Figure("profiled steps", calls.steps.steps, "count"),
        ),
        place=place,
        parts=(GapCause.ALLOCATION.value, GapCause.LAUNCH.value),
    )


def _goes_on(facts: Facts, calls: Allocations) -> bool:
    """Whether allocating continues after the first steps: memory is also freed, or many steps
    allocate."""
    if calls.frees or calls.in_steps >= max(2, OFTEN * calls.steps.steps):
        return True
    memory = gpu_memory(facts)
    if memory is None or len(memory.reserved) < 2:
        return False
    later = memory.reserved[len(memory.reserved) // 2 :]
    return bool(np.mean(later[1:] != later[:-1]) >= OFTEN) if len(later) > 1 else False


CHURN = Rule(
    id="allocator-churn",
    when="steps allocate and free memory in the driver",
    explanation=(
        "PyTorch keeps freed GPU memory for the next tensor. torch.cuda.empty_cache() returns it "
        "to the driver, which waits for the GPU, and the next step has to allocate it again: "
        "remove that call. Without such a call, varying shapes or too little memory are the "
        "cause: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and make the first step the "
        "largest. Allocate pinned host memory once."
    ),
    lost=_churning,
    limits=Limits("TraceLens reports exposed time from 5 %.", info=0.01),
    claims=Claim(idle=GapCause.ALLOCATION),
    fixes=("empty-cache-off", "expandable-segments"),
    answer="remove empty_cache(); expandable segments; the largest batch first",
)
