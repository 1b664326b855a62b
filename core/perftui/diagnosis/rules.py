"""Every rule that looks for lost time, the more specific of two before the general one."""

from __future__ import annotations

from perftui.diagnosis.rule import Rule
from perftui.diagnosis.symptoms import (
    busy_host,
    cpu,
    data,
    gil,
    kernels,
    launch_bound,
    library_says,
    loader_start,
    machine,
    memory,
    optimizer,
    sync_bound,
)

RULES: tuple[Rule, ...] = (
    data.MAIN_THREAD,
    data.BOUND,
    loader_start.LOADER_START,
    optimizer.SINGLE_TENSOR,
    sync_bound.SYNC,
    launch_bound.LAUNCH,
    kernels.FLOAT64,
    cpu.AFFINITY,
    cpu.THREADS,
    cpu.ONEDNN,
    gil.CONTENTION,
    machine.WRONG_BUILD,
    busy_host.BUSY_HOST,
    machine.SWAPPING,
    memory.PRESSURE,
    machine.GPUS_UNUSED,
    machine.SLOW_START,
    library_says.LIBRARY_SAYS,
)
"""In this order they are asked; findings are ranked by what they cost."""

BY_ID = {rule.id: rule for rule in RULES}
