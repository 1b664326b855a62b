"""Passes of the model on the CPU, by the order of its operators: attention written out,
forward work within backward, forward passes that no backward follows."""

from __future__ import annotations

import re

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD, OPERATORS
from perftui.facts.cpu.operators import Operators, Work, operators, work_of
from perftui.facts.fact import trace_fact
from perftui.facts.step.steady import Mask
from perftui.trace.model import NONE, Int64

_SOFTMAX = frozenset({"aten::softmax", "aten::_softmax"})
_PRODUCT = frozenset({"aten::matmul", "aten::bmm", "aten::baddbmm", "aten::einsum"})
_BATCHED = frozenset({"aten::bmm", "aten::baddbmm"})
_LAYER = re.compile(
    r"aten::(linear|conv[123]d|layer_norm|batch_norm|group_norm|scaled_dot_product_attention|relu"
    r"|gelu|silu|dropout|softmax|embedding|addmm|lstm|gru|max_pool2d)$"
)
"""What modules call, and no node of the backward pass does."""

WEIGHTED = re.compile(r"aten::(addmm|mm|bmm|convolution|mkldnn_rnn_layer|native_layer_norm)$")
WEIGHTED_NODE = re.compile(r"(Addmm|Mm|Bmm|Convolution|MkldnnRnnLayer|NativeLayerNorm)Backward\d*$")

NODE = "autograd::engine::evaluate_function: "
"""Before the name of a node of the backward pass, in that of the operator around it."""

KEEPS_GRADIENT = "torch::autograd::AccumulateGrad"
"""The node that keeps the gradient of a parameter."""

BEFORE, BEHIND = 12, 10
"""Operators between a softmax and the products around it: scaling, masks, dropout, views."""

TWICE = 1.7
"""Times as many forward as backward operators, from which on a pass has no backward."""

MOST_PASSES = 3
"""Forward passes for each with a backward pass, up to which one is a repetition: more of them play,
generate or look ahead, on other inputs."""


@trace_fact
def attention(analysis: TraceAnalysis) -> Work:
    """Operators of attention that is written out: between two batched products with a softmax in
    between, and as much of the backward pass by the nodes of the softmax and what is around."""
    found = operators(analysis)
    top = _in_order(found)
    mine = np.zeros(len(found.rows), dtype=bool)
    softmax = (found.named(_SOFTMAX.__contains__) & found.in_phase(FORWARD, OPERATORS))[top]
    if not softmax.any():
        return work_of(found, mine, mine)
    batched = _holding(found, found.named(_BATCHED.__contains__))
    product = (found.named(_PRODUCT.__contains__) & batched)[top]
    mine[top[_around(softmax, product, BEHIND)]] = True
    if not mine.any():
        return work_of(found, mine, mine)
    return work_of(found, found.within(mine | _attention_nodes(found, top)), mine)


def _attention_nodes(found: Operators, top: Int64) -> Mask:
    """Attention in the backward pass: from product to product around each softmax's node."""
    mine = np.zeros(len(found.rows), dtype=bool)
    softmax = found.named(lambda name: name.endswith(": SoftmaxBackward0"))[top]
    product = found.named(lambda name: name.endswith((": BmmBackward0", ": BaddbmmBackward0")))[top]
    mine[top[_around(softmax, product, BEFORE)]] = True
    return mine


def _around(softmax: Mask, product: Mask, behind: int) -> Mask:
    """From the product before each softmax to the one behind it, where they are no farther off than
    ``BEFORE`` and ``behind``."""
    at, products = np.flatnonzero(softmax), np.flatnonzero(product & ~softmax)
    following = np.searchsorted(products, at)
    edged = np.concatenate([[-BEFORE - 1], products, [len(product) + behind]])
    first, last = edged[following], edged[following + 1]
    near = (at - first <= BEFORE) & (last - at <= behind)
    turns = np.zeros(len(softmax) + 1, dtype=np.int64)
    np.add.at(turns, first[near], 1)
    np.add.at(turns, last[near] + 1, -1)
    mask: Mask = np.cumsum(turns[:-1]) > 0
    return mask


@trace_fact
def embedding_gradients(analysis: TraceAnalysis) -> Work:
    """Dense gradients of embedding tables."""
    found = operators(analysis)
    dense = found.named("aten::embedding_dense_backward".__eq__)
    return work_of(found, found.within(dense), dense)


@trace_fact
def recomputed(analysis: TraceAnalysis) -> Work:
    """Operators of layers that run within the backward pass."""
    found = operators(analysis)
    layers = found.named(_LAYER.match) & found.in_phase(BACKWARD)
    return work_of(found, found.within(layers), layers)


@trace_fact
def repeated_passes(analysis: TraceAnalysis) -> Work:
    """Operators of forward passes that repeat another of their step with no backward pass of their
    own; nothing where all have one, or they differ."""
    found = operators(analysis)
    mine = np.zeros(len(found.rows), dtype=bool)
    trace = found.trace
    weighted = found.named(WEIGHTED.match) & found.in_phase(FORWARD)
    nodes = found.named(WEIGHTED_NODE.match)
    if not nodes.any() or np.count_nonzero(weighted) < TWICE * np.count_nonzero(nodes):
        return work_of(found, mine, mine)
    marks = np.flatnonzero(kinds.marked(trace, FORWARD))
    top = _in_order(found)
    start = trace.start[found.rows]
    first = np.searchsorted(start[top], trace.start[marks])
    last = np.searchsorted(start[top], trace.ends_of(marks))
    passes = [top[one:end] for one, end in zip(first.tolist(), last.tolist(), strict=True)]
    alike: dict[tuple[int, bytes], list[Int64]] = {}
    for one in passes:
        step = found.steps.step_at(int(start[one[0]])) if len(one) else None
        if step is not None:
            alike.setdefault((step.index, found.name[one].tobytes()), []).append(one)
    with_backward = np.count_nonzero(nodes) / np.count_nonzero(weighted)
    for each in alike.values():
        trained = max(round(len(each) * with_backward), 1)
        if len(each) <= MOST_PASSES * trained:
            for one in each[trained:]:
                mine[one] = True
    return work_of(found, found.within(mine), mine)


def _in_order(found: Operators) -> Int64:
    """Positions of the operators that no other called, by start."""
    start = found.trace.start[found.rows[found.top]]
    return found.top[np.argsort(start, kind="stable")]


def _holding(found: Operators, inner: Mask) -> Mask:
    """The ``inner`` operators and all that call them."""
    mine: Mask = inner.copy()
    at = np.flatnonzero(inner)
    while len(at):
        at = found.caller[at].astype(np.int64)
        at = np.unique(at[at != NONE])
        at = at[~mine[at]]
        mine[at] = True
    return mine
