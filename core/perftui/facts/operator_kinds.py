"""What kinds of work the operators of a training on the CPU do, by their names and callers."""

from __future__ import annotations

import re

import numpy as np

from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.parts import OTHER
from perftui.analysis.steps.phases import BACKWARD, OPTIMIZER
from perftui.facts.fact import trace_fact
from perftui.facts.operator_loops import loops
from perftui.facts.operators import Operators, operators
from perftui.facts.steady import Mask
from perftui.trace.model import NONE

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
    r"|tocopy|view|torch::jit|tritonkernel|compiled|call_compiled)",
    re.IGNORECASE,
)
"""Operators that models are made of, which nothing cheaper stands in for, and those that rules of
their own are about: copies, casts and element-wise operators."""


def plain(name: str) -> str:
    """An operator or a node of the backward pass in one spelling: ``aten::linalg_svd`` and
    ``LinalgSvdBackward0`` are both ``linalgsvd``."""
    node = _NODE.match(name)
    word = node["name"] if node else name.removeprefix("aten::")
    return word.replace("_", "").lower()


@trace_fact
def pointwise(analysis: TraceAnalysis) -> Mask:
    """Element-wise operators and reductions that the script calls one by one, and what the
    backward pass does for them; the optimizer's are none of them."""
    found = operators(analysis)
    caller = np.maximum(found.caller, 0)
    is_top = found.caller == NONE
    nodes = found.named(_POINTWISE_NODE.match)
    called = found.named(_POINTWISE_CALL.match) & is_top & ~found.in_phase(BACKWARD)
    both: Mask = (called | nodes | (nodes[caller] & ~is_top)) & ~found.in_phase(OPTIMIZER)
    return found.within(both)


@trace_fact
def casts(analysis: TraceAnalysis) -> Mask:
    """Copies to another data type outside the optimizer and loops of the script."""
    found = operators(analysis)
    return found.within(found.named(_CAST.__contains__)) & ~_elsewhere(analysis, found)


@trace_fact
def copies(analysis: TraceAnalysis) -> Mask:
    """Copies into another order of memory outside the optimizer and loops of the script, casts left
    out: of what is not contiguous, and those that the script asks for."""
    found = operators(analysis)
    asked = found.named("aten::copy_".__eq__) & (found.caller == NONE)
    copied = found.within(found.named(_COPY.__contains__) | asked)
    cast = found.within(found.named(_CAST.__contains__))
    return copied & ~cast & ~_elsewhere(analysis, found)


def _elsewhere(analysis: TraceAnalysis, found: Operators) -> Mask:
    """What other rules are about."""
    looped = np.zeros(len(found.rows), dtype=bool)
    for loop in loops(analysis):
        if loop.phase == OTHER:
            looped[loop.positions] = True
    mask: Mask = found.within(looped) | found.in_phase(OPTIMIZER)
    return mask


def outermost_by_kind(found: Operators) -> dict[str, tuple[str, Mask]]:
    """By one spelling, the operators that no other calls and the nodes of the backward pass: the
    name of the first, and which they are."""
    top = (found.caller == NONE) & ~found.in_phase(OPTIMIZER)
    kinds: dict[str, tuple[str, Mask]] = {}
    for number in np.unique(found.name[top]).tolist():
        name = found.trace.names[number]
        if USEFUL.match(name) or _POINTWISE_CALL.match(name) or _POINTWISE_NODE.match(name):
            continue
        known, mine = kinds.get(plain(name), ("", np.zeros(len(top), dtype=bool)))
        first = known if known.startswith("aten::") else name
        kinds[plain(name)] = (first, mine | (top & (found.name == number)))
    return kinds
