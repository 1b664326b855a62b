"""Every rule that looks for lost time, the more specific of two before the general one."""

from __future__ import annotations

from perftui.diagnosis.rule import Rule
from perftui.diagnosis.symptoms import (
    attention,
    data,
    fusion,
    kernels,
    launch_bound,
    layout,
    loader_start,
    loops,
    memory,
    optimizer,
    precision,
    sizes,
    sync_bound,
)

RULES: tuple[Rule, ...] = (
    data.MAIN_THREAD,
    data.BOUND,
    loader_start.LOADER_START,
    optimizer.SINGLE_TENSOR,
    loops.PER_PARAMETER,
    sync_bound.SYNC,
    launch_bound.LAUNCH,
    attention.ATTENTION_MASK,
    attention.UNFUSED,
    layout.LAYOUT,
    layout.CUDNN_BENCHMARK,
    precision.MATMUL_FP32,
    precision.TENSOR_CORES,
    sizes.MISALIGNED,
    kernels.FLOAT64,
    fusion.DTYPE_CHURN,
    fusion.ELEMENTWISE,
    loops.CONV_BIAS,
    loops.RECOMPUTE,
    loops.ZERO_GRAD,
    memory.PRESSURE,
)
"""In this order they are asked; findings are ranked by what they cost."""

BY_ID = {rule.id: rule for rule in RULES}
