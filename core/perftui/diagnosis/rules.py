"""Every rule that looks for lost time, the more specific of two before the general one."""

from __future__ import annotations

from perftui.diagnosis.rule import Rule
from perftui.diagnosis.symptoms import (
    data,
    evaluation,
    gc_pauses,
    growth,
    kernels,
    launch_bound,
    loader_start,
    memory,
    optimizer,
    recompiles,
    script_python,
    slow_steps,
    sync_bound,
)

RULES: tuple[Rule, ...] = (
    data.MAIN_THREAD,
    data.BOUND,
    loader_start.LOADER_START,
    optimizer.SINGLE_TENSOR,
    recompiles.RECOMPILES,
    gc_pauses.PAUSES,
    slow_steps.SLOW,
    slow_steps.CHECKPOINT,
    evaluation.EVALUATION,
    growth.GROWING,
    sync_bound.SYNC,
    script_python.PYTHON,
    launch_bound.LAUNCH,
    kernels.FLOAT64,
    memory.PRESSURE,
    growth.MEMORY_GROWTH,
)
"""In this order they are asked; findings are ranked by what they cost."""

BY_ID = {rule.id: rule for rule in RULES}
