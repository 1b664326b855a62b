"""Attention written out, on the GPU or the CPU: the scores of all pairs of positions in memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from perftui.analysis.kernels.category import Category
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import FORWARD, OPERATORS
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.diagnosis.symptoms.operators.work import KernelWork, kernel_work, operator_work
from perftui.facts.cpu.operators import Operators, Work, operators, work_of
from perftui.facts.fact import Facts, UnknownError, trace_fact
from perftui.facts.gpu.kernels import StepKernels, callers, is_named, kernel_chains, step_kernels
from perftui.facts.place import Place
from perftui.facts.question import Evidence, Question
from perftui.facts.source.operator_lines import line_of
from perftui.facts.source.source_calls import called, in_own_files, matching_lines
from perftui.script.program import tree_of
from perftui.trace.model import NONE, Mask

_SOFTMAX = frozenset({"aten::softmax", "aten::_softmax"})
_PRODUCTS = frozenset({"aten::matmul", "aten::bmm", "aten::baddbmm", "aten::einsum"})
_BATCHED = frozenset({"aten::bmm", "aten::baddbmm"})

BEFORE, BEHIND = 12, 10
"""Most operators between a softmax and the products around it: scaling, masks, dropout, views."""


@trace_fact
def written_out_attention(analysis: TraceAnalysis) -> Work:
    """Operators of written-out attention: two batched products with a softmax in between, and in
    the backward pass the nodes from product to product around the softmax's."""
    ops = operators(analysis)
    top = ops.top_by_start
    mine = np.zeros(len(ops.rows), dtype=bool)
    softmax = (ops.named(_SOFTMAX.__contains__) & ops.in_phase(FORWARD, OPERATORS))[top]
    if not softmax.any():
        return work_of(ops, mine, mine)
    batched = _holding(ops, ops.named(_BATCHED.__contains__))
    product = (ops.named(_PRODUCTS.__contains__) & batched)[top]
    mine[top[_around(softmax, product, BEHIND)]] = True
    if not mine.any():
        return work_of(ops, mine, mine)
    # Also in the backward pass: from product to product around each softmax's node.
    softmax = ops.named(lambda name: name.endswith(": SoftmaxBackward0"))[top]
    product = ops.named(lambda name: name.endswith((": BmmBackward0", ": BaddbmmBackward0")))[top]
    whole = mine.copy()
    whole[top[_around(softmax, product, BEFORE)]] = True
    return work_of(ops, ops.within(whole), mine)


def _around(softmax: Mask, product: Mask, behind: int) -> Mask:
    """From the product before each softmax to the one after it, if they are at most ``BEFORE`` and
    ``behind`` away."""
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


def _holding(ops: Operators, inner: Mask) -> Mask:
    """The ``inner`` operators and all that call them."""
    mine: Mask = inner.copy()
    at = np.flatnonzero(inner)
    while len(at):
        at = ops.caller[at].astype(np.int64)
        at = np.unique(at[at != NONE])
        at = at[~mine[at]]
        mine[at] = True
    return mine


def _unfused_on_cpu(facts: Facts) -> Lost | None:
    cpu, work = operator_work(facts), written_out_attention(facts)
    if not work.calls or cpu.on_device:
        return None
    return cpu.lost(
        work,
        line_of(facts, FORWARD, _WRITTEN),
        "Attention written out as two matrix products with a softmax in between takes {part}{at}.",
        "attention",
        Figure("operators of attention in forward", work.calls, "count"),
        operator="aten::softmax",
        saved=0.5,
    )


_WRITTEN = r"softmax|\bbmm\b|\bmatmul\b|einsum|masked_fill| @ |baddbmm"
"""Lines with a part of attention that is written out."""

_MULTIPLY = frozenset({"matmul", "bmm", "baddbmm", "einsum", "mm"})


def may_be_written_out(facts: Facts, place: Place | None) -> bool:
    """Whether attention may be what the line at ``place`` is a part of: not if it is written by
    hand, and no softmax of the user's files gets into a product of matrices."""
    lines = in_own_files(facts, lambda path, changed: matching_lines(path, changed, _WRITTEN))
    if place is None or (place.file, place.line) not in lines:
        return True
    weighs = [one for _, one in in_own_files(facts, _weighs)]
    return any(weighs) or not weighs


def _weighs(path: Path, changed: int) -> Iterator[bool]:
    """For each function that calls softmax, whether its value may be multiplied as a matrix: the
    function has such a product, or hands the value on."""
    for scope in ast.walk(tree_of(path, changed)):
        if not isinstance(scope, ast.FunctionDef):
            continue
        nodes = list(ast.walk(scope))
        made = {node for node in nodes if isinstance(node, ast.Call) and _is_softmax(node)}
        if not made:
            continue
        stored = [node for node in nodes if isinstance(node, ast.Assign)]
        names = {ast.dump(one.targets[0]) for one in stored if _source(one.value) in made}
        handed = [node.value for node in nodes if isinstance(node, ast.Return)]
        handed += [arg for node in nodes if isinstance(node, ast.Call) for arg in node.args]
        handed += [one.value for one in stored if not isinstance(one.targets[0], ast.Name)]
        yield any(map(_multiplies, nodes)) or any(
            (source := _source(one)) in made
            or (source is not None and ast.dump(source).replace("Load", "Store") in names)
            for one in handed
        )


def _is_softmax(call: ast.Call) -> bool:
    return called(call).lower() == "softmax"


def _multiplies(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and called(node) in _MULTIPLY
    # A layer is called elsewhere, by any name.
    is_layer = isinstance(node, ast.Call) and called(node) == "Softmax"
    return is_call or is_layer or isinstance(getattr(node, "op", None), ast.MatMult)


def _source(node: ast.expr | None) -> ast.expr | None:
    """What ``node`` is a view or a method's result of."""
    while not (isinstance(node, ast.Call) and _is_softmax(node)):
        inner = node.func if isinstance(node, ast.Call) else node
        if not isinstance(inner, (ast.Attribute, ast.Subscript)):
            return node
        node = inner.value
    return node


_BIAS = 3
"""Position of the mask among the inputs of the efficient kernel, after query, key and value."""

_NESTED = 3
"""Most operators above the launch."""


@trace_fact
def masked_attention(analysis: TraceAnalysis) -> tuple[int, ...] | None:
    """The size of the square mask, shared by all heads, that the longest attention kernel reads;
    None without one, empty if the trace has no shapes that would show it."""
    kernels, trace = step_kernels(analysis).of(Category.ATTENTION), analysis.trace
    rows = kernels.operator
    for _ in range(_NESTED):
        wanted = is_named(trace, rows, "aten::_scaled_dot_product_efficient_attention")
        if wanted.any():
            row = int(rows[wanted][np.argmax(kernels.duration[wanted])])
            arguments = trace.read_arguments(row)
            return _square(arguments) if "Input Dims" in arguments else ()
        rows = callers(trace, rows)
    return None


def _square(arguments: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The mask's size if it is the same for every sequence and head: others are biases."""
    try:
        sizes, strides = (arguments[key][_BIAS] for key in ("Input Dims", "Input Strides"))
        is_one = all(s == 1 or not stride for s, stride in zip(sizes[:-2], strides, strict=False))
        return tuple(sizes[-2:]) if is_one and sizes[-1] == sizes[-2] else None
    except (KeyError, IndexError, TypeError):
        return None


_MATH = "aten::_scaled_dot_product_attention_math"
_SOURCE = "A fused kernel saves all of it."


def _unfused(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    if _MATH in work.kernels.analysis.trace.names:
        # ATTENTION_MASK reports it.
        return None
    chain = kernel_chains(work.kernels.analysis).attention
    return _lost(
        work,
        chain,
        chain.time,
        f"Between the two matrix products of attention the GPU spends {work.of_step(chain.time)} "
        "in softmax, masks and scaling, each of which moves the scores of all pairs of positions "
        "through memory.",
    )


UNFUSED = Rule(
    id="unfused-attention",
    when="attention runs softmax between two matrix products as separate kernels",
    explanation=(
        "Attention written out by hand writes the scores of all pairs of positions to memory and "
        "reads them back for scaling, mask, softmax and dropout. "
        "torch.nn.functional.scaled_dot_product_attention does it in one kernel that never writes "
        "them. The cost is the time of the kernels between the two matrix products."
    ),
    lost=_unfused,
    limits=Limits(_SOURCE),
    may_be=may_be_written_out,
    fixes=("attention-fused",),
    answer="torch.nn.functional.scaled_dot_product_attention",
)

UNFUSED_ON_CPU = replace(
    UNFUSED, lost=_unfused_on_cpu, limits=Limits("Fusing saves about half of the time.", 0.10, 0.40)
)


def _mask(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    analysis = work.kernels.analysis
    if _MATH in analysis.trace.names:
        attention = kernel_chains(analysis).attention
        return _lost(
            work,
            attention,
            attention.time,
            "scaled_dot_product_attention falls back to its slow path, with softmax and mask as "
            f"separate kernels: they take {work.of_step(attention.time)}.",
        )
    mask, attention = masked_attention(analysis), work.kernels.of(Category.ATTENTION)
    if mask is None:
        return None
    # A causal kernel skips half of the pairs.
    saved = attention.time // 2
    if not mask:
        share = work.won(saved) / work.of.mean
        raise UnknownError(Question(Evidence.SHAPES, "whether attention could be faster", share))
    sizes = " x ".join(str(size) for size in mask)
    return _lost(
        work,
        attention,
        saved,
        f"Attention takes {work.of_step(attention.time)} and reads a mask of {sizes} from memory, "
        "which rules out the fastest kernels.",
        "whether the mask is causal",
    )


def _lost(
    work: KernelWork, kernels: StepKernels, saved: int, sentence: str, unproven: str = ""
) -> Lost | None:
    count = Figure("kernels a step", kernels.count, "count")
    return work.lost(kernels, saved, sentence, count, unproven=unproven) if saved else None


ATTENTION_MASK = Rule(
    id="attention-mask",
    when="scaled_dot_product_attention reads a mask from memory, or falls back to its slow path",
    explanation=(
        "FlashAttention supports only causal masks: with attn_mask torch chooses a slower kernel, "
        "and also computes the pairs that a causal mask skips. Pass is_causal=True instead. torch "
        "takes the slow path, softmax between two matrix products, for data types, devices and "
        "head sizes that no fused kernel supports, and if the fused backends are disabled."
    ),
    lost=_mask,
    limits=Limits(_SOURCE),
    answer="is_causal=True instead of a mask; 16 bits; the backends of torch.nn.attention",
)
