"""Whether the GPU memory that tensors take grows from step to step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.facts.fact import Facts, fact
from perftui.facts.gpu.memory import gpu_memory
from perftui.facts.step.steady import median
from perftui.facts.step.steps import steady_rows
from perftui.trace.model import Int64

FEWEST = 20
"""Steps whose memory is known."""

MOST = 200
"""Steps that are compared with each other."""

LEAST = 32 << 20
"""Bytes over all steps: less is noise of the allocator."""

NOISE = 4.0
"""Times the median deviation from the slope that it has to come to."""


@dataclass(frozen=True)
class MemoryGrowth:
    """Sizes in bytes."""

    each_step: float
    whole: float
    """Over all ``steps``."""
    steps: int
    median: float
    """Median of the bytes held at the end of a step."""


@fact
def memory_growth(facts: Facts) -> MemoryGrowth | None:
    """Growth of memory by the median slope between any two steps (Theil and Sen); None where it
    does not grow in both halves of the steady steps, beyond its noise, or too few steps tell."""
    memory, steady = gpu_memory(facts), steady_rows(facts)
    if memory is None or not len(steady):
        return None
    known = memory.step >= int(steady["index"][0])
    step, held = memory.step[known], memory.allocated[known]
    if len(step) < FEWEST:
        return None
    chosen = np.linspace(0, len(step) - 1, min(len(step), MOST)).astype(np.int64)
    step, held = step[chosen], held[chosen]
    each = _slope(step, held)
    steps = int(step[-1] - step[0])
    half = len(step) // 2
    lowest = min(_slope(step[:half], held[:half]), _slope(step[half:], held[half:]))
    noise = median(np.abs(held - held[0] - each * (step - step[0])))
    if each * steps < max(LEAST, NOISE * noise) or lowest < each / 2:
        return None
    return MemoryGrowth(each, each * steps, steps, max(median(held), 1.0))


def _slope(step: Int64, held: Int64) -> float:
    """Median slope over all pairs, bytes a step."""
    one, other = np.triu_indices(len(step), 1)
    return median((held[other] - held[one]) / (step[other] - step[one]))
