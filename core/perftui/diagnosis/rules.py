"""Every rule that looks for lost time, the more specific of two before the general one."""

from __future__ import annotations

from perftui.diagnosis.rule import Rule
from perftui.diagnosis.symptoms import (
    allocator,
    cards,
    copies,
    data,
    debug_flags,
    kernels,
    launch_bound,
    loader_start,
    memory,
    optimizer,
    profiler_overhead,
    sync_bound,
)

RULES: tuple[Rule, ...] = (
    data.MAIN_THREAD,
    data.BOUND,
    loader_start.LOADER_START,
    optimizer.SINGLE_TENSOR,
    profiler_overhead.OVERHEAD,
    debug_flags.FLAGS,
    allocator.CHURN,
    copies.CREATED,
    copies.PAGEABLE,
    copies.EXPOSED,
    copies.MANY,
    sync_bound.SYNC,
    launch_bound.LAUNCH,
    kernels.FLOAT64,
    memory.PRESSURE,
    memory.GROWTH,
    memory.FRAGMENTATION,
    memory.HEADROOM,
    cards.HELD,
    cards.SHARED,
    cards.LINK,
)
"""In this order they are asked; findings are ranked by what they cost."""

BY_ID = {rule.id: rule for rule in RULES}
