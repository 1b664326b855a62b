"""Casts, copies and element-wise work: whole tensors passed through memory once more."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD, OPERATORS, OPTIMIZER, OTHER
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, rule
from perftui.diagnosis.symptoms.operators.attention import MATH
from perftui.diagnosis.symptoms.operators.views import expanded_operands
from perftui.diagnosis.symptoms.operators.work import cpu_work, kernel_work, operator_work
from perftui.facts.cpu.machine import machine_use, ranks_here
from perftui.facts.cpu.operator_loops import SMALL_NS, loops
from perftui.facts.cpu.operators import Work, operators, work_of
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, trace_fact
from perftui.facts.gpu.kernels import kernel_chains
from perftui.facts.settings import settings
from perftui.facts.source.operator_lines import at, line_of, line_place
from perftui.facts.source.source_calls import matching_line
from perftui.facts.step.judged_step import judged_step
from perftui.trace.model import NONE, Mask

_POINTWISE = (
    "add|sub|rsub|mul|div|true_divide|pow|sqrt|rsqrt|exp|log|tanh|sigmoid|erf|neg|abs|reciprocal"
    "|square|mean|sum|var|std|where|maximum|minimum|addcmul|addcdiv"
)

POINTWISE_CALL = re.compile(rf"aten::({_POINTWISE})_?$")

POINTWISE_NODE = re.compile(
    rf"(autograd::engine::evaluate_function: )?({_POINTWISE})(Backward)+\d*$", re.IGNORECASE
)

_CAST = frozenset({"aten::_to_copy"})

_COPY = frozenset({"aten::contiguous", "aten::reshape"})
"""Operators that copy only what does not lie in memory as asked for: a clone of the script's own
may be of a tensor that does."""


@trace_fact
def pointwise(analysis: TraceAnalysis) -> Work:
    """Element-wise operators and reductions that the script calls one after another, with their
    backward pass, without the optimizer's: a lone activation has nothing to be fused with. Calls in
    backward are not counted."""
    ops = operators(analysis)
    is_top, back = ops.caller == NONE, ops.in_phase(BACKWARD)
    nodes, called = ops.named(POINTWISE_NODE.match), ops.named(POINTWISE_CALL.match) & ~back
    for chosen in (nodes, called):
        # Those beside another.
        one = np.pad(chosen[is_top], 1)
        chosen &= is_top
        chosen[is_top] &= one[:-2] | one[2:]
    mine = ops.within((called | nodes) & ~ops.in_phase(OPTIMIZER))
    return work_of(ops, mine, called & ops.in_phase(FORWARD, OPERATORS, OTHER))


@trace_fact
def casts(analysis: TraceAnalysis) -> Work:
    """Copies to another data type outside the optimizer and loops of the script."""
    ops = operators(analysis)
    cast = ops.named(_CAST.__contains__)
    return work_of(ops, ops.within(cast) & ~_elsewhere(analysis), cast)


@trace_fact
def own_casts(analysis: TraceAnalysis) -> Work:
    """Those that the script asks for: autocast's are inside the operators that they are for. Their
    backward pass counts if there are no others, whose backward pass looks the same. On a GPU copies
    from the host are none."""
    ops = operators(analysis)
    every, to = ops.named(_CAST.__contains__), ops.caller
    if ops.device is not None:
        every &= ops.spent > 0
    above = np.where(to == NONE, NONE, ops.caller[to])
    asked = (above == NONE) | ops.named("aten::type_as".__eq__)[above]
    cast = every & ((to == NONE) | (ops.named("aten::to".__eq__)[to] & asked))
    mine, back = ops.within(cast), ops.in_phase(BACKWARD)
    work = work_of(ops, mine & ~_elsewhere(analysis), cast)
    if (every & ~cast & ~back).any():
        return work
    mine |= ops.within(ops.named(lambda name: "ToCopyBackward" in name))
    whole = work_of(ops, mine & ~_elsewhere(analysis))
    return replace(work, by_phase=whole.by_phase, idle=whole.idle)


@trace_fact
def copies(analysis: TraceAnalysis) -> Work:
    """Copies of non-contiguous tensors into another memory layout, outside the optimizer and loops
    of the script, without casts, operands that are expanded, and those of torch's own attention."""
    ops = operators(analysis)
    mine = ops.within(ops.named(_COPY.__contains__))
    mine &= ~ops.within(ops.named((_CAST | {MATH}).__contains__)) & ~_elsewhere(analysis)
    expanded, copying = expanded_operands(analysis), ops.named("aten::copy_".__eq__)
    return work_of(ops, mine & ~expanded.copying if expanded else mine, copying)


@trace_fact
def _elsewhere(analysis: TraceAnalysis) -> Mask:
    """Operators reported by other rules."""
    ops = operators(analysis)
    looped = (loop.positions for loop in loops(analysis) if loop.phase == OTHER)
    return ops.within(ops.at(*looped)) | ops.in_phase(OPTIMIZER)


FEW = 4
"""Casts of a step that are no churn, of the batch and of the loss, and copies that are
negligible."""

_ARITHMETIC = r"[-+*/] .*[-+*/] |\.(pow|sqrt|exp|tanh|mean|sum|sigmoid)\("
"""The text of a line with more than one element-wise operator."""

CHAIN = 8
"""Element-wise operators of a step that are a chain, not just a residual connection."""

MOSTLY = 0.40
"""Share of the step from which fewer of them matter: they work on large tensors, such as those of
all pairs."""


@rule(
    when="the script converts tensors between data types again and again",
    limits=Limits(info=0.03),
    answer="convert once, where the data enters, and leave types inside the model to autocast",
)
def dtype_churn(facts: Facts) -> Lost | None:
    """Calls such as .float(), .half() and .to(dtype) copy the whole tensor, and backward copies its
    gradient. Autocast's own conversions are not counted."""
    judged, work = operator_work(facts), own_casts(facts)
    # Autocast on a CPU has a rule of its own.
    autocast = "cpu" in (settings(facts).autocast or {}) and not judged.on_device
    if work.calls <= FEW or autocast:
        return None
    return judged.lost(
        work,
        judged.line_of(FORWARD, r"\.(to|float|double|half|bfloat16|type|type_as)\("),
        "Casts to another data type take {part}, {calls} of them in a step{at}.",
        "casts",
        Figure("calls in a step", work.calls, "count"),
        operator="aten::_to_copy",
    )


@rule(
    when="tensors are copied into another memory layout",
    limits=Limits("gpu-idle reports copies from 10 %.", 0.10, 0.25),
    answer="choose one layout for all layers (channels_last, batch_first), or use views",
)
def layout_copies(facts: Facts) -> Lost | None:
    """contiguous() and reshape() after a permute or transpose copy the tensor, and backward copies
    its gradient."""
    judged, work = operator_work(facts), copies(facts)
    if work.calls <= FEW:
        return None
    lost = judged.lost(
        work,
        line_of(facts, FORWARD, r"\.(contiguous|clone|reshape|copy_|repeat|flatten)\("),
        "Copies of tensors into another memory layout take {part}, {calls} of them in a step{at}.",
        "copies",
        Figure("calls in a step", work.calls, "count"),
        operator="aten::copy_",
    )
    # Most of them may be those of torch's own layers, which take heads apart and transpose.
    is_of_torch = matching_line(facts, r"\bnn\.(Transformer\w*|MultiheadAttention)\(")
    return replace(lost, worst=Severity.INFO if is_of_torch else Severity.CRITICAL)


FAULT_NS = 2_500
"""Most ns of a page fault without a disk: 0.5 us, in a virtual machine 1.7 were measured."""


@rule(
    when="the memory of large tensors is mapped anew in each step",
    limits=Limits(
        "Trainings without large temporaries lose up to a seventh.", 0.20, 0.40, info=0.10
    ),
    answer=(
        "write into tensors that stay (out=), use torch.compile, or set MALLOC_MMAP_MAX_=0 "
        "MALLOC_TRIM_THRESHOLD_=2147483647"
    ),
)
def page_faults(facts: Facts) -> Lost | None:
    """The C library returns large blocks to the system when they are freed, and the kernel clears
    the pages of the next tensor: for one addition that may take longer than the addition."""
    # Time in which the kernel maps memory, bounded by the number of its pages.
    if facts.run is None:
        raise NotApplicableError
    cpu, use = cpu_work(facts), machine_use(facts)
    if use.minor_faults is None or use.system_share is None:
        raise UnknownError("page faults of the training were not sampled")
    count = round(use.minor_faults / ranks_here(facts) * cpu.of.mean / 1e9)
    cost = min(round(use.system_share * cpu.judged.computing), count * FAULT_NS)
    chain = pointwise.or_none(facts)
    line = line_of(facts, chain.longest_of(FORWARD, OTHER) if chain else FORWARD, _ARITHMETIC)
    return Lost(
        cost,
        cpu.of,
        f"Linux takes {cpu.of.part_of(cost)} to map {count:,} pages of memory anew, since "
        f"large tensors are made and freed again{at(line)}.",
        (Figure("page faults in a step", count, "count"),),
        place=line_place(facts, line),
        parts=(FORWARD, BACKWARD, OPTIMIZER, OPERATORS),
        label="system time of page faults",
    )


_MEMORY_BOUND_SHARE = 0.30
"""Share of the GPU's busy time, or of a step on the CPU, from which fusing may pay; slowai calls a
GPU memory-bound from half of it."""


@rule(
    when="long chains of elementwise kernels, normalisations and reductions that could be fused",
    limits=Limits("In a fused GPT it is 6 %, in a fused ResNet 2 %.", 0.10, 0.20),
    fixes=("elementwise-fused", "compile"),
    answer=(
        "use torch.compile, or functions that are one kernel each: gelu, layer_norm, rms_norm, "
        "softmax, cross_entropy"
    ),
)
def memory_bound_elementwise(facts: Facts) -> Lost | None:
    """Each such kernel reads its tensors from memory and writes its result back. The cost assumes
    that a fused chain takes three passes of its longest kernel."""
    judged = judged_step.or_none(facts)
    if judged is not None and not judged.on_device:
        return _called_one_by_one(facts)
    work = kernel_work(facts)
    chained, saved = kernel_chains(work.kernels.analysis)
    time, busy = chained.time, work.kernels.time
    if not time or time < _MEMORY_BOUND_SHARE * busy:
        return None
    kernels = fmt.several(chained.count, "kernel")
    return work.lost(
        chained,
        saved,
        f"The GPU spends {work.of_step(time)} in {kernels} for elementwise work, normalisation and "
        "reductions, each of which moves whole tensors through memory.",
        Figure.share("of GPU compute", time / busy, _MEMORY_BOUND_SHARE),
        Figure("fused they would save", saved, "ns"),
    )


def _called_one_by_one(facts: Facts) -> Lost | None:
    cpu, work = operator_work(facts), pointwise(facts)
    is_chain = work.calls >= CHAIN
    share = cpu.time_of(work).ns / cpu.of.mean
    if share < (_MEMORY_BOUND_SHARE if is_chain else MOSTLY):
        return None
    if not is_chain and cpu.operators.trace.duration[work.row] < SMALL_NS:
        # Small tensors: what each call costs, not memory.
        return None
    which = "called one by one" if is_chain else "on large tensors"
    count = ", {calls} of them outside backward" if is_chain else ""
    lost = cpu.lost(
        work,
        line_of(facts, work.longest_of(FORWARD, OTHER), _ARITHMETIC),
        f"Element-wise operators {which} take {{part}}{count}{{at}}: each makes its own pass "
        "through memory.",
        "",
        Figure.share("element-wise operators", share, _MEMORY_BOUND_SHARE),
        Figure("calls in a step", work.calls, "count"),
        # One pass over memory instead of a chain of them.
        saved=0.5,
    )
    return replace(lost, share=None)
