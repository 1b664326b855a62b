"""Every rule that looks for lost time, specific ones before general ones."""

from __future__ import annotations

from perftui.diagnosis.ladder import LADDER
from perftui.diagnosis.model import Finding
from perftui.diagnosis.rule import Rule, Rung
from perftui.diagnosis.symptoms.data_loader import input_wait, padding, workers
from perftui.diagnosis.symptoms.gpu_idle import allocator, copies, host_bound
from perftui.diagnosis.symptoms.machine import cores, machine, memory
from perftui.diagnosis.symptoms.operators import (
    attention,
    convolutions,
    costly_operators,
    elementwise,
    formulas,
    gradients,
    loops,
    passes,
    precision,
    slow_values,
    views,
)
from perftui.diagnosis.symptoms.ranks import collectives, straggler
from perftui.diagnosis.symptoms.script import (
    debugging,
    evaluation,
    interpreter,
    output,
    python_bound,
    repeated_work,
    torch_compile,
)
from perftui.diagnosis.symptoms.step import growth, recording, slow_steps

RULES: tuple[Rule, ...] = (
    torch_compile.RECOMPILES,
    debugging.OVERHEAD,
    interpreter.PAUSES,
    growth.GROWING,
    growth.KEPT,
    repeated_work.REPEATED_WORK,
    repeated_work.UNREAD,
    input_wait.MAIN_THREAD,
    workers.OVERSUBSCRIBED,
    workers.HANDOVER,
    workers.UNEVEN,
    workers.BURSTY,
    workers.COMPUTING_WORKERS,
    workers.DISK,
    workers.BOUND,
    input_wait.LOADER_START,
    output.WORKERS_DIED,
    loops.SINGLE_TENSOR,
    collectives.EACH_MICRO_BATCH,
    collectives.SYNC_BATCH_NORM,
    collectives.MANY_SMALL,
    collectives.SINGLE_BUCKET,
    collectives.BUCKET_COPIES,
    collectives.SLOW_NETWORK,
    straggler.STRAGGLER,
    straggler.CHANGING,
    straggler.EXPOSED,
    collectives.DATA_PARALLEL,
    collectives.UNUSED_PARAMETERS,
    slow_steps.SLOW,
    slow_steps.CHECKPOINT,
    evaluation.EVALUATION,
    slow_values.SUBNORMAL_NUMBERS,
    debugging.FLAGS,
    allocator.CHURN,
    machine.LINK,
    copies.CREATED,
    copies.PAGEABLE,
    copies.MANY,
    copies.EXPOSED,
    loops.PER_PARAMETER,
    host_bound.SYNC,
    interpreter.CONTENTION,
    python_bound.PYTHON,
    recording.INITIALISATION,
    recording.CALLS,
    recording.TRACE_INCOMPLETE,
    attention.ATTENTION_MASK,
    attention.UNFUSED,
    convolutions.LAYOUT,
    convolutions.CUDNN_BENCHMARK,
    precision.MATMUL_FP32,
    precision.TENSOR_CORES,
    precision.MISALIGNED,
    costly_operators.SORTING,
    precision.FLOAT64,
    cores.AFFINITY,
    cores.THREADS,
    cores.ONEDNN,
    machine.WRONG_BUILD,
    cores.OWN_PROCESS,
    cores.BUSY_HOST,
    formulas.FORMULA,
    elementwise.DTYPE_CHURN,
    memory.SMALL_BATCH,
    machine.SWAPPING,
    convolutions.CONV_BIAS,
    passes.RECOMPUTE,
    gradients.ZERO_GRAD,
    memory.PRESSURE,
    slow_steps.NO_PROGRESS,
    convolutions.UNTRIED,
    machine.GPUS_UNUSED,
    machine.SLOW_START,
    torch_compile.UNPAID,
    slow_steps.SLOWER,
    output.LIBRARY_SAYS,
    torch_compile.GRAPH_BREAKS,
    loops.INDEXING,
    gradients.ZERO_TERM,
    views.FILLED,
    views.EXPANDED,
    padding.PADDING,
    gradients.DENSE,
    costly_operators.DROPPED,
    costly_operators.IGNORED,
    gradients.UNUSED,
    passes.MANY,
    passes.REPEATED,
    passes.BACKWARD_AGAIN,
    precision.EMULATED,
    elementwise.COPIES,
    elementwise.PAGE_FAULTS,
    elementwise.ELEMENTWISE,
    costly_operators.ONE_OPERATOR,
    python_bound.PYTHON_IN_MODEL,
    host_bound.LAUNCH,
    growth.MEMORY_GROWTH,
    memory.GROWTH,
    memory.FRAGMENTATION,
    memory.HEADROOM,
    straggler.UNEVEN_MEMORY,
    machine.HELD,
    machine.SHARED,
)
"""In the order they are asked: of time that two claim, the later one has the rest. Findings are
ranked by cost. Two rows with one id are two losses of one symptom, which may both be found: people
read the words of the first."""

BY_ID = {rule.id: rule for rule in RULES}

BY_NAME: dict[str, Rule | Rung] = {
    # Of two rows with one id the first.
    **{rule.id: rule for rule in (*RULES, *reversed(RULES))},
    **{rung.id: rung for rung in LADDER},
}
"""In the order they are asked."""


def answer_to(finding: Finding) -> str:
    """What to do about a finding, in one line: what is known of its place, else what its rule says
    of all; empty if there is nothing to do."""
    entry = BY_NAME.get(finding.rule)
    return finding.advice or (entry.answer if entry else "")
