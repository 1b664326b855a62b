"""The training allocates memory from the driver in every step, not from PyTorch's cache."""

from __future__ import annotations

import re

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, rule
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.gpu.cards import gpu_memory
from perftui.facts.gpu.host_waits import gaps_of, host_waits
from perftui.facts.gpu.idle import device_steps, rows_place, window_step
from perftui.facts.source.lines import at_frames, lines_within
from perftui.facts.step.trace_steps import gpu_steps
from perftui.trace.model import Int64

_FREES = re.compile(r"Free|Release|Unmap")
_EMPTIES = re.compile(r"torch/\w+/memory\.py:\d+ empty_cache$")


@trace_fact
def allocations(analysis: TraceAnalysis) -> tuple[Int64, int, int, int]:
    """Calls of any thread that allocate or free driver memory in the steady steps, without those
    that set the driver up: their rows, their time in all of these steps, ns, how many of them free,
    and the number of steps with any. Unknown if the trace shows no GPU."""
    steps, trace = gpu_steps(analysis), analysis.trace
    rows = np.flatnonzero(kinds.allocating(trace)).astype(np.int64)
    rows = rows[steps.inside[rows]]
    rows = rows[~gaps_of(steps, (GapCause.INITIALISATION,)).holds(trace.start[rows])]
    frees = kinds.named(trace, _FREES.search)[rows]
    starts = np.array([part.step.start for part in steps.each], dtype=np.int64)
    of_step = np.searchsorted(starts, trace.start[rows], side="right")
    time = kinds.busy(trace, rows).total
    return rows, time, int(np.count_nonzero(frees)), len(np.unique(of_step))


OFTEN = 0.2
"""Share of the steps from which allocating is not just initial growth."""


@rule(
    when="steps allocate and free memory in the driver",
    limits=Limits(info=0.01),
    claims=Claim(idle=GapCause.ALLOCATION),
    fixes=("empty-cache-off", "expandable-segments"),
    answer="remove empty_cache(), or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
)
def allocator_churn(facts: Facts) -> Lost | None:
    """PyTorch keeps freed memory for the next tensor. torch.cuda.empty_cache() returns it to the
    driver, which waits for the GPU, and the next step allocates it again. Otherwise varying shapes
    or too little memory are the cause."""
    profiled, step = device_steps(facts).steps, window_step(facts)
    rows, time, frees, in_steps = allocations(facts)
    if not len(rows) or not (
        frees or in_steps >= max(2, OFTEN * profiled) or _reserves_more(facts)
    ):
        return None
    count = max(profiled, 1)
    # Driver calls take as long without the profiler.
    cost = min(time // count, host_waits(facts).idle // count, step.mean)
    emptied = lines_within(facts, at_frames(_EMPTIES))
    place = facts.at(emptied.lines[0], "empty_cache") if emptied else rows_place(facts, rows)
    why = f"torch.cuda.empty_cache(){place.at}" if emptied else ""
    how = f"{fmt.several(len(rows) - frees, 'call')} to allocate, {frees} to free"
    return Lost(
        cost,
        step,
        "Allocating memory in the driver takes "
        f"{step.part_of(cost)}{f', after {why}' if why else place.at}: {how}.",
        (
            Figure.share(
                "in calls of the driver", cost / step.mean, allocator_churn.limits.warning, place
            ),
            Figure("calls that allocate", len(rows) - frees, "count"),
            Figure("calls that free", frees, "count"),
            Figure("profiled steps", profiled, "count"),
        ),
        place=place,
        parts=(GapCause.ALLOCATION.value, GapCause.LAUNCH.value),
    )


def _reserves_more(facts: Facts) -> bool:
    """Whether what PyTorch reserves still changes often in the later half of the steps."""
    memory = gpu_memory(facts)
    if memory is None or len(memory.reserved) < 2:
        return False
    later = memory.reserved[len(memory.reserved) // 2 :]
    return bool(np.mean(later[1:] != later[:-1]) >= OFTEN) if len(later) > 1 else False
