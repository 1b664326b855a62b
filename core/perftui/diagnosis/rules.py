"""Every rule that looks for lost time, the more specific of two before the general one."""

from __future__ import annotations

from perftui.diagnosis.rule import Rule
from perftui.diagnosis.symptoms import (
    data,
    data_pattern,
    data_workers,
    kernels,
    launch_bound,
    loader_start,
    memory,
    optimizer,
    sync_bound,
)

RULES: tuple[Rule, ...] = (
    data.MAIN_THREAD,
    data_workers.OVERSUBSCRIBED,
    data_pattern.HANDOVER,
    data_pattern.UNEVEN,
    data_pattern.BURSTY,
    data_workers.COMPUTING_WORKERS,
    data_workers.DISK,
    data.BOUND,
    loader_start.LOADER_START,
    optimizer.SINGLE_TENSOR,
    sync_bound.SYNC,
    launch_bound.LAUNCH,
    kernels.FLOAT64,
    memory.PRESSURE,
)
"""In this order they are asked; findings are ranked by what they cost."""

BY_ID = {rule.id: rule for rule in RULES}
