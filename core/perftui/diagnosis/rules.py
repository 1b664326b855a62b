"""Every rule that looks for lost time, the more specific of two before the general one."""

from __future__ import annotations

from perftui.diagnosis.rule import Rule
from perftui.diagnosis.symptoms import (
    copies,
    data,
    kernels,
    launch_bound,
    loader_start,
    memory,
    optimizer,
    sync_bound,
)

RULES: tuple[Rule, ...] = (
    data.MAIN_THREAD,
    data.BOUND,
    loader_start.LOADER_START,
    optimizer.SINGLE_TENSOR,
    copies.CREATED,
    copies.PAGEABLE,
    copies.EXPOSED,
    copies.MANY,
    sync_bound.SYNC,
    launch_bound.LAUNCH,
    kernels.FLOAT64,
    memory.PRESSURE,
)
"""In this order they are asked; findings are ranked by what they cost."""

BY_ID = {rule.id: rule for rule in RULES}
