"""Operators on the CPU that take longer than the work needs: casts, copies, chains, one of many."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD, OPERATORS, OPTIMIZER, OTHER
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.operator_loops import loops
from perftui.facts.cpu.operators import (
    PHASES,
    Work,
    all_cpu_operators,
    all_operators,
    cpu_operators,
    in_step,
    operators,
    work_of,
)
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.source.operator_lines import at, calls_of, line_of, place_of
from perftui.facts.source.source_calls import call_of
from perftui.facts.step.judged_step import JudgedStep
from perftui.facts.step.steady import Mask
from perftui.trace.model import NONE, Int64

_POINTWISE = (
    "add|sub|rsub|mul|div|true_divide|pow|sqrt|rsqrt|exp|log|tanh|sigmoid|erf|neg|abs|reciprocal"
    "|square|mean|sum|var|std|where|maximum|minimum|addcmul|addcdiv"
)
_POINTWISE_CALL = re.compile(rf"aten::({_POINTWISE})_?$")
_POINTWISE_NODE = re.compile(
    rf"(autograd::engine::evaluate_function: )?({_POINTWISE})Backward\d*$", re.IGNORECASE
)
_NODE = re.compile(r"(autograd::engine::evaluate_function: )?(?P<name>\w+?)Backward\d*$")
_CAST = frozenset({"aten::_to_copy"})
_COPY = frozenset({"aten::contiguous", "aten::clone"})

USEFUL = re.compile(
    r"(aten::|torch::autograd::|autograd::engine::evaluate_function: )?_?"
    r"(linear|matmul|mm|bmm|addmm|baddbmm|addmv|mv|einsum|conv|thnn_conv|mkldnn|slow_conv|lstm|gru"
    r"|rnn|scaled_dot_product|multi_head|native|layer_norm|batch_norm|group_norm|instance_norm"
    r"|relu|leaky|gelu|silu|elu|hardswish|threshold|softmax|log_softmax|cross_entropy|nll_loss"
    r"|mse_loss|max_pool|avg_pool|adaptive|to$|_to_copy|contiguous|clone|copy_$|reshape"
    r"|accumulategrad|torch::autograd|foreach|fused|nativelayernorm|nativebatchnorm|t$|unsafeview"
    r"|tocopy|view|select|slice|narrow|unbind|split|chunk|masked_?fill|embedding|torch::jit|tritonkernel|compiled|call_compiled)",
    re.IGNORECASE,
)
"""Operators that models are made of, which nothing cheaper stands in for, and those that rules of
their own are about: copies, casts and element-wise operators."""


_OF_COMPILER = re.compile(
    r"Torch-Compiled Region|TorchDynamo |dynamo\b|Pregraph bytecode|AOTDispatcher |## Call "
    r"|.*\(dynamo_timed\)|.*compile_id="
)
"""Ranges of ``torch.compile`` that pass for operators: what it compiled, and its own work, of which
a rule of its own speaks."""


def plain(name: str) -> str:
    """An operator or a node of the backward pass in one spelling: ``aten::linalg_svd`` and
    ``LinalgSvdBackward0`` are both ``linalgsvd``."""
    node = _NODE.match(name)
    word = node["name"] if node else name.removeprefix("aten::")
    return word.replace("_", "").lower()


@trace_fact
def pointwise(analysis: TraceAnalysis) -> Work:
    """Element-wise operators and reductions that the script calls one by one, and what the
    backward pass does for them; the optimizer's are none of them. Those of forward count."""
    found = operators(analysis)
    is_top = found.caller == NONE
    nodes = found.named(_POINTWISE_NODE.match)
    called = found.named(_POINTWISE_CALL.match) & is_top & ~found.in_phase(BACKWARD)
    mine = found.within((called | nodes) & ~found.in_phase(OPTIMIZER))
    return work_of(found, mine, called & found.in_phase(FORWARD, OPERATORS))


@trace_fact
def casts(analysis: TraceAnalysis) -> Work:
    """Copies to another data type outside the optimizer and loops of the script."""
    found = operators(analysis)
    cast = found.named(_CAST.__contains__)
    return work_of(found, found.within(cast) & ~_elsewhere(analysis), cast)


@trace_fact
def copies(analysis: TraceAnalysis) -> Work:
    """Copies into another order of memory outside the optimizer and loops of the script, casts left
    out: of what is not contiguous, and those that the script asks for."""
    found = operators(analysis)
    copying = found.named("aten::copy_".__eq__)
    asked = copying & (found.caller == NONE)
    mine = found.within(found.named(_COPY.__contains__) | asked)
    mine &= ~found.within(found.named(_CAST.__contains__))
    return work_of(found, mine & ~_elsewhere(analysis), copying)


@trace_fact
def _elsewhere(analysis: TraceAnalysis) -> Mask:
    """What other rules are about."""
    found = operators(analysis)
    looped = np.zeros(len(found.rows), dtype=bool)
    for loop in loops(analysis):
        if loop.phase == OTHER:
            looped[loop.positions] = True
    mask: Mask = found.within(looped) | found.in_phase(OPTIMIZER)
    return mask


@dataclass
class Kind:
    """Outermost operators and nodes of the backward pass that are spelled alike."""

    name: str
    """Name of the operator, or else of the node."""
    calls: int
    """Calls of the operator in a step."""
    by_phase: Int64
    """Time of the calls and of what they call, by number of ``PHASES``, ns."""

    @property
    def goes_back(self) -> bool:
        """Whether the backward pass does any of it."""
        return bool(self.by_phase[PHASES.index(BACKWARD)])


@trace_fact
def costliest(analysis: TraceAnalysis) -> Kind | None:
    """The kind of operator outside the optimizer that takes longest, of those that models are not
    made of, with its backward pass; None without any. If the steps are not known, those of all
    of the trace are asked, and what scripts call by a name of their own is no operator there."""
    found = all_operators(analysis)
    top = found.top[found.phase[found.top] != PHASES.index(OPTIMIZER)]
    pairs = found.name[top].astype(np.int64) * len(PHASES) + found.phase[top]
    size = len(found.trace.names) * len(PHASES)
    spent = np.bincount(pairs, found.duration[top], size).astype(np.int64)
    counts = np.bincount(pairs, minlength=size)
    known: dict[str, Kind] = {}
    for number in np.flatnonzero(counts.reshape(-1, len(PHASES)).any(1)).tolist():
        name = found.trace.names[number]
        if _is_useful(name) or not (found.steps.steps or "::" in name):
            continue
        at = slice(number * len(PHASES), (number + 1) * len(PHASES))
        kind = known.setdefault(plain(name), Kind(name, 0, np.zeros(len(PHASES), np.int64)))
        kind.by_phase = kind.by_phase + spent[at]
        if name.startswith("aten::"):
            kind.name, kind.calls = name, int(counts[at].sum()) // max(found.steps.steps, 1)
    whole = [_with_backward(key, known) for key in known]
    return max(whole, key=lambda kind: int(kind.by_phase.sum()), default=None)


def _with_backward(key: str, known: dict[str, Kind]) -> Kind:
    """Calls of kind ``key`` and those of its own backward pass, which is named alike."""
    mine = known[key]
    others = [
        one.by_phase
        for other, one in known.items()
        if other != key
        and "Backward" in one.name
        and (key.startswith(other) or other.startswith(key))
    ]
    return replace(mine, by_phase=sum(others, mine.by_phase))


def _is_useful(name: str) -> bool:
    known = (USEFUL, _OF_COMPILER, _POINTWISE_CALL, _POINTWISE_NODE)
    return any(pattern.match(name) for pattern in known)


FEW_CASTS = 4
"""Casts of a step that are no churn: of the batch and of the loss."""

FEW_COPIES = 4
"""Copies of a step that are none to speak of."""

_ARITHMETIC = r"[-+*/] .*[-+*/] |\.(pow|sqrt|exp|tanh|mean|sum|sigmoid)\("
"""The text of a line with more than one element-wise operator."""

CHAIN = 8
"""Element-wise operators of a step that are a chain rather than a residual connection."""

MOSTLY = 0.35
"""Share of the step from which on fewer of them are the question: they go through large tensors,
such as those of all pairs."""


def _casts(facts: Facts) -> Lost | None:
    found, judged = cpu_operators(facts)
    work = casts(facts)
    if work.calls <= FEW_CASTS:
        return None
    time = in_step(found, judged, work.by_phase)
    line = line_of(facts, FORWARD, r"\.(to|float|double|half|bfloat16|type|type_as)\(")
    return Lost(
        time.ns,
        judged.of,
        f"Casts to another data type take {fmt.part_of_step(time.ns, judged.of.mean)}, "
        f"{work.calls} of them in a step{at(line)}.",
        _figures("casts", time.ns, work.calls, judged, CHURN),
        place=place_of(facts, line, "aten::_to_copy"),
        parts=time.parts,
    )


def _copies(facts: Facts) -> Lost | None:
    found, judged = cpu_operators(facts)
    work = copies(facts)
    if work.calls <= FEW_COPIES:
        return None
    time = in_step(found, judged, work.by_phase)
    line = line_of(facts, FORWARD, r"\.(contiguous|clone|reshape|copy_|repeat|flatten)\(")
    return Lost(
        time.ns,
        judged.of,
        "Copies of tensors into another memory layout take "
        f"{fmt.part_of_step(time.ns, judged.of.mean)}, {work.calls} of them in a step{at(line)}.",
        _figures("copies", time.ns, work.calls, judged, COPIES),
        place=place_of(facts, line, "aten::copy_"),
        parts=time.parts,
    )


def _elementwise(facts: Facts) -> Lost | None:
    found, judged = cpu_operators(facts)
    work = pointwise(facts)
    time, mean = in_step(found, judged, work.by_phase), judged.of.mean
    is_chain = work.calls >= CHAIN
    if not is_chain and time.ns < MOSTLY * mean:
        return None
    called = {phase: int(work.by_phase[PHASES.index(phase)]) for phase in (FORWARD, OTHER)}
    line = line_of(facts, max(called, key=lambda phase: called[phase]), _ARITHMETIC)
    which = "called one by one" if is_chain else "on large tensors"
    count = f", {work.calls} of them in a forward pass" if is_chain else ""
    return Lost(
        # One pass over memory in place of a chain of them.
        time.ns // 2,
        judged.of,
        f"Element-wise operators {which} take {fmt.part_of_step(time.ns, mean)}{count}{at(line)}: "
        "each makes its own pass through memory.",
        _figures("element-wise operators", time.ns, work.calls, judged, ELEMENTWISE),
        place=place_of(facts, line),
        parts=time.parts,
        share=time.ns / mean,
    )


def _one_operator(facts: Facts) -> Lost | None:
    found, judged = all_cpu_operators(facts)
    kind = costliest(facts)
    if kind is None:
        return None
    time = in_step(found, judged, kind.by_phase)
    called = (name for name, ns in zip(PHASES, kind.by_phase, strict=True) if ns)
    phase = next((name for name in called if name != BACKWARD), FORWARD)
    line = line_of(facts, phase, calls_of(kind.name), only=True)
    line = line or call_of(facts, kind.name) or line_of(facts, phase)
    mean = judged.of.mean
    elsewhere = np.array([name == OTHER for name in PHASES])
    outside = in_step(found, judged, np.where(elsewhere, kind.by_phase, 0)).ns
    return Lost(
        # Within the model something cheaper has to stand in for it.
        time.ns - (time.ns - outside) // 2,
        judged.of,
        f"{kind.name}{at(line)} takes {_part_of(judged, time.ns)}"
        f"{', with its backward pass' if kind.goes_back else ''}.",
        _figures(kind.name, time.ns, kind.calls, judged, ONE_OPERATOR),
        place=place_of(facts, line, kind.name),
        parts=time.parts,
        share=time.ns / mean,
        unproven="what another operator would take instead",
    )


def _part_of(judged: JudgedStep, ns: int) -> str:
    step = judged.of
    describe = fmt.part_of_step if step.of_run or step.count else fmt.part_of_trace
    return describe(ns, step.mean)


def _figures(what: str, ns: int, calls: int, judged: JudgedStep, rule: Rule) -> tuple[Figure, ...]:
    mean = judged.of.mean
    return (
        Figure.share(what, ns / mean, rule.limits.warning),
        Figure("calls in a step", calls, "count"),
        Figure("mean step", mean, "ns"),
        Figure("steady steps", judged.of.count, "count"),
    )


CHURN = Rule(
    id="dtype-churn",
    when="tensors are cast from one data type to another and back",
    explanation=(
        "Each cast reads and writes the whole tensor. Keep activations in one data type, cast "
        "once where the data enters the model, or leave casting to torch.autocast."
    ),
    lost=_casts,
    limits=Limits(0.05, 0.20, "TraceLens reports exposed time from 5 %.", info=0.03),
    answer="cast once",
)

COPIES = Rule(
    id="layout-copies",
    when="tensors are copied into another memory layout",
    explanation=(
        "contiguous(), clone() and reshape() after a permute or transpose copy the tensor, and "
        "the backward pass copies its gradient back. Choose a layout that all layers can use "
        "(channels_last, batch_first), or use views."
    ),
    lost=_copies,
    limits=Limits(0.10, 0.25, "gpu-idle reports copies from 10 %."),
    answer="one memory layout, views instead of copies",
)

ELEMENTWISE = Rule(
    id="memory-bound-elementwise",
    when="chains of element-wise operators make many passes through memory",
    explanation=(
        "Each operator in a chain reads its input from memory and writes its result back; a fused "
        "operator does so once. Use torch's own (gelu, layer_norm, softmax, cross_entropy), or "
        "torch.compile. The cost is estimated as half of their time."
    ),
    lost=_elementwise,
    limits=Limits(0.30, 0.50, "slowai calls 50 % of the time memory-bound; fusing pays from 30 %."),
    fixes=("elementwise-fused", "compile"),
    answer="torch's fused functions, torch.compile",
)

ONE_OPERATOR = Rule(
    id="slow-operator",
    when="one operator other than a matrix product, convolution or the like takes much of the step",
    explanation=(
        "Sorting, decompositions, searches, scatters and random numbers are expensive on large "
        "tensors. Compute less (topk instead of sort, power iteration instead of a full "
        "decomposition), do it less often, or once before the training. Within the model the cost "
        "is estimated as half of its time."
    ),
    lost=_one_operator,
    limits=Limits(0.25, 0.50, "Half of a quarter is an eighth of the step."),
    answer="a cheaper operator, or call it less often",
)
