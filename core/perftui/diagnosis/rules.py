"""Every rule that looks for lost time, the more specific of two before the general one."""

from __future__ import annotations

from perftui.diagnosis.rule import Rule
from perftui.diagnosis.symptoms import (
    data,
    kernels,
    launch_bound,
    loader_start,
    memory,
    optimizer,
    parallelism,
    ranks,
    sync_bound,
)

RULES: tuple[Rule, ...] = (
    data.MAIN_THREAD,
    data.BOUND,
    loader_start.LOADER_START,
    optimizer.SINGLE_TENSOR,
    parallelism.EACH_MICRO_BATCH,
    ranks.STRAGGLER,
    ranks.EXPOSED,
    parallelism.DATA_PARALLEL,
    parallelism.UNUSED_PARAMETERS,
    sync_bound.SYNC,
    launch_bound.LAUNCH,
    kernels.FLOAT64,
    memory.PRESSURE,
)
"""In this order they are asked; findings are ranked by what they cost."""

BY_ID = {rule.id: rule for rule in RULES}
