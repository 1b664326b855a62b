"""The training gets memory from the driver in every step, rather than from PyTorch's cache."""

from __future__ import annotations

from pathlib import PurePath

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Lost, Rule
from perftui.facts.fact import Facts
from perftui.facts.gpu.allocations import Allocations, allocations, empty_cache_lines
from perftui.facts.gpu.device_share import part_of, window_step
from perftui.facts.gpu.gpu import device_steps
from perftui.facts.gpu.host_waits import host_waits
from perftui.facts.gpu.memory import gpu_memory
from perftui.facts.place import Place
from perftui.facts.source.host_lines import place_of_rows

OFTEN = 0.2
"""Share of the steps from which on allocating is no growth that ends."""


def _churning(facts: Facts) -> Lost | None:
    device_steps(facts)
    found, step = allocations(facts), window_step(facts)
    if not len(found.rows) or not _goes_on(facts, found):
        return None
    count = max(found.steps.steps, 1)
    # Calls of the driver take as long without the profiler.
    cost = min(found.time // count, host_waits(facts).idle // count, step.mean)
    emptied = empty_cache_lines(facts)
    if emptied is not None:
        line = emptied.lines[0]
        place = Place(facts.rank_number, operator="empty_cache", file=line.file, line=line.line)
    else:
        place = place_of_rows(facts, found.rows)
    at = f" at {PurePath(place.source).name}" if place.source else ""
    why = f"torch.cuda.empty_cache(){at}" if emptied is not None else ""
    how = f"{fmt.several(found.gets, 'call')} to allocate, {found.frees} to free"
    return Lost(
        cost,
        step,
        "Allocating memory in the driver takes "
        f"{part_of(step, cost)}{f', after {why}' if why else at}: {how}.",
        (
            Figure.share("in calls of the driver", cost / step.mean, CHURN.limits.warning, place),
            Figure("calls that allocate", found.gets, "count"),
            Figure("calls that free", found.frees, "count"),
            Figure("profiled steps", found.steps.steps, "count"),
        ),
        place=place,
        parts=(GapCause.ALLOCATION.value, GapCause.LAUNCH.value),
    )


def _goes_on(facts: Facts, found: Allocations) -> bool:
    """Whether allocating goes on after the first steps: memory is given back too, or many steps
    get some."""
    if found.frees or found.in_steps >= max(2, OFTEN * found.steps.steps):
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
    limits=Limits(0.05, 0.20, "TraceLens reports exposed time from 5 %.", info=0.01),
    claims=Claim(idle=GapCause.ALLOCATION),
    fixes=("empty-cache-off", "expandable-segments"),
    answer="remove empty_cache(); expandable segments; the largest batch first",
)
