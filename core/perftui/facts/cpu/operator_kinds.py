"""What kinds of work the operators of a training on the CPU do, by their names and callers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.parts import OTHER
from perftui.analysis.steps.phases import BACKWARD, FORWARD, OPERATORS, OPTIMIZER
from perftui.facts.cpu.operator_loops import loops
from perftui.facts.cpu.operators import PHASES, Work, all_operators, operators, work_of
from perftui.facts.fact import trace_fact
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
