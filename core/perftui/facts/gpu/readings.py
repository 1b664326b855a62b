"""How long a GPU may have idled, by what was read while no profiler ran.

A window of one step shows the causes of idle time, and may be no typical step. NVML's samples and
the events around the phases of steps show less of each, but of many steps: 18 launch-bound runs
that idle 60 to 90 % of a window's step were sampled 13 to 44 % busy.
"""

from __future__ import annotations

import numpy as np

from perftui.facts.fact import Facts, fact, finite, samples
from perftui.facts.gpu.cards import own_gpus
from perftui.facts.gpu.memory import peak_reserved
from perftui.facts.step.steps import (
    DEVICE_COLUMNS,
    FEWEST_STEPS,
    steady_rows,
    steady_span,
    timed_steps,
)
from perftui.telemetry.gpu.names import gpu_prefixes

OTHERS_HOLD = 0.10
"""Share of the card's memory that others may hold while its samples are taken for the training's: a
context and its libraries take up to 2 GB of it."""


@fact
def sampled_busy(facts: Facts) -> float | None:
    """Share of the steady steps in which NVML saw a kernel running, 0 to 1; None if the rank has
    not one card for itself, or fewer than two samples of it."""
    table, during = samples(facts), steady_span(facts)
    if during is None or "time" not in table:
        return None
    known = gpu_prefixes(column.name for column in table.columns)
    gpu, *others = own_gpus.or_none(facts) or known or [""]
    inside = table.where((table["time"] >= during[0]) & (table["time"] <= during[1]))
    busy = finite(inside, f"{gpu}.utilization")
    if others or len(busy) < FEWEST_STEPS or not _alone(facts, gpu):
        return None
    return float(busy.mean()) / 100


def _alone(facts: Facts, gpu: str) -> bool:
    """Whether the memory in use on the card is the training's own."""
    used, total, mine = (
        finite(samples(facts), f"{gpu}.{name}").max(initial=0)
        for name in ("memory_used", "memory_total", "process_memory")
    )
    # In a container no process of the training is listed: what torch holds is.
    own = float(mine) or peak_reserved(facts) or 0
    return bool(total) and bool(own) and used - own <= OTHERS_HOLD * total


@fact
def idle_in_waits(facts: Facts) -> float:
    """Share of the time in the data loader in which the GPU may idle, 0 to 1: it works off what is
    queued while the host waits. By steps timed on the GPU; 1 if there are fewer than two."""
    timed = timed_steps(steady_rows(facts))
    if timed is None or len(timed) < FEWEST_STEPS:
        return 1.0
    working = sum(timed[column].clip(min=0) for column in DEVICE_COLUMNS)
    waits = timed["input_wait"]
    free = np.minimum(waits, np.maximum(timed["duration"] - working, 0))
    return float(free.sum() / waits.sum()) if waits.any() else 1.0
