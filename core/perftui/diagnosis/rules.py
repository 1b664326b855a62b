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
    torch_compile.recompiles,
    debugging.profiler_overhead,
    interpreter.gc_pauses_rule,
    growth.growing_steps_rule,
    growth.kept_graph,
    repeated_work.repeated_work_rule,
    repeated_work.unread_result_rule,
    input_wait.input_in_main_thread,
    workers.workers_oversubscribed,
    workers.input_handover,
    workers.input_uneven,
    workers.input_bursty,
    workers.input_worker_bound,
    workers.input_disk_bound,
    workers.input_bound,
    input_wait.loader_start,
    output.workers_died,
    loops.optimizer_single_tensor,
    collectives.reduce_each_micro_batch,
    collectives.sync_batch_norm,
    collectives.many_small_reductions,
    collectives.single_bucket,
    collectives.bucket_copies_rule,
    collectives.slow_network,
    straggler.straggler,
    straggler.uneven_ranks,
    straggler.communication_exposed,
    collectives.wrong_parallelism,
    collectives.unused_parameters_search,
    slow_steps.slow_steps_rule,
    slow_steps.checkpoint,
    evaluation.evaluation_rule,
    slow_values.subnormal_numbers_rule,
    debugging.debug_flags,
    allocator.allocator_churn,
    machine.pcie_degraded,
    copies.created_on_cpu,
    copies.pageable_copies,
    copies.many_small_copies,
    copies.copies_exposed,
    loops.per_parameter_loop,
    host_bound.sync_bound,
    interpreter.gil_contention,
    python_bound.python_bound,
    recording.initialisation,
    recording.host_calls,
    recording.trace_incomplete,
    attention.attention_mask,
    attention.unfused_attention,
    convolutions.layout_conversion,
    convolutions.cudnn_benchmark,
    precision.matmul_fp32,
    precision.tensor_cores_unused,
    precision.misaligned_dims,
    costly_operators.sorting,
    precision.float64,
    cores.cpu_affinity,
    cores.cpu_threads,
    cores.onednn_off,
    machine.wrong_build,
    cores.own_process,
    cores.busy_host_rule,
    formulas.FORMULA,
    elementwise.dtype_churn,
    memory.small_batch,
    machine.swapping,
    convolutions.conv_bias_before_bn,
    passes.backward_recompute,
    gradients.zero_grad_memset,
    memory.memory_pressure,
    slow_steps.no_progress,
    convolutions.cudnn_benchmark_off,
    machine.gpus_unused,
    machine.slow_start,
    torch_compile.compile_not_paid,
    slow_steps.slower_than_before,
    output.library_says,
    torch_compile.graph_breaks,
    loops.loop_of_indexing,
    gradients.zero_term,
    views.filled_gradients_rule,
    views.expanded_operand,
    padding.padding_waste,
    gradients.dense_gradients,
    costly_operators.dropped_results_rule,
    costly_operators.ignored_targets_rule,
    gradients.unused_gradients,
    passes.many_backward_passes,
    passes.repeated_forward,
    passes.repeated_backward_rule,
    precision.emulated_precision,
    elementwise.layout_copies,
    elementwise.page_faults,
    elementwise.memory_bound_elementwise,
    costly_operators.slow_operator,
    python_bound.PYTHON_IN_MODEL,
    host_bound.launch_bound,
    growth.memory_growth,
    memory.GROWTH,
    memory.fragmentation,
    memory.memory_headroom,
    straggler.uneven_memory,
    machine.thermal_or_power_cap,
    machine.shared_gpu,
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


def answered_by(fix: str) -> list[str]:
    """The rules whose findings the fix of that name addresses."""
    return list(dict.fromkeys(rule.id for rule in RULES if fix in rule.fixes))


def is_caution(finding: Finding) -> bool:
    """Whether it stands beside the verdicts, about the measurement or the launch."""
    return not finding.cost_ns and finding.rule in BY_ID and BY_ID[finding.rule].is_caution


def answer_to(finding: Finding) -> str:
    """What to do about a finding, in one line: what is known of its place, else what its rule says
    of all; empty if there is nothing to do."""
    entry = BY_NAME.get(finding.rule)
    return finding.advice or (entry.answer if entry else "")
