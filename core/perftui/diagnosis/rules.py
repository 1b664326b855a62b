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
    memory,
    model_work,
    operator_loops,
    operator_work,
    optimizer,
    parallelism,
    python_in_model,
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
    cpu.AFFINITY,
    cpu.THREADS,
    cpu.ONEDNN,
    gil.CONTENTION,
    busy_host.BUSY_HOST,
    memory.PRESSURE,
    library_says.LIBRARY_SAYS,
    operator_loops.PER_PARAMETER,
    operator_loops.INDEXING,
    model_work.DENSE,
    model_work.UNUSED,
    model_work.REPEATED,
    model_work.RECOMPUTE,
    model_work.ATTENTION,
    operator_work.CHURN,
    operator_work.COPIES,
    operator_work.ELEMENTWISE,
    operator_work.ONE_OPERATOR,
    python_in_model.PYTHON_IN_MODEL,
)
"""In this order they are asked; findings are ranked by what they cost."""

BY_ID = {rule.id: rule for rule in RULES}
