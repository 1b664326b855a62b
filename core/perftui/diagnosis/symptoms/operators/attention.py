"""Attention written out, on the GPU or the CPU: the scores of all pairs of positions in memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.kernels.category import Category
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import FORWARD, OPERATORS
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, rule
from perftui.diagnosis.symptoms.operators.work import kernel_work, operator_work
from perftui.facts.cpu.operators import Work, all_operators, work_of
from perftui.facts.fact import Facts, UnknownError, trace_fact
from perftui.facts.gpu.kernels import BATCHED, is_named, step_kernels
from perftui.facts.question import Evidence, Question
from perftui.facts.source.source_calls import in_own_files
from perftui.script.program import Program, called_name
from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import NONE, Int64, Mask

_SOFTMAX = frozenset({"aten::softmax", "aten::_softmax", "aten::_safe_softmax"})
_PRODUCTS = frozenset({"aten::matmul", "aten::bmm", "aten::baddbmm", "aten::einsum"})
_BATCHED_DIMS = 3

BEFORE, BEHIND = 12, 10
"""Most operators between a softmax and the products around it: scaling, masks, dropout, views."""

MOST_READ = 64
"""Softmaxes whose sizes are read from the file: all steps do the same."""


@trace_fact
def written_out_attention(analysis: TraceAnalysis) -> tuple[Work, bool] | None:
    """Work between two batched products with a softmax in between, as in attention of the script or
    of torch: without the products, but with the backward pass. And whether sizes show that the
    softmax is of the first product and an operand of the second; else they are not recorded. None
    without any, or if sizes show that each softmax is another, such as a gate between products."""
    ops = all_operators(analysis)
    # What torch writes out itself lies in two operators of its own.
    around = ops.named(MATH.__eq__)
    around[ops.caller[around & (ops.caller != NONE)]] = True
    caller = np.where(around[ops.caller], NONE, ops.caller)
    top = ops.by_start((caller == NONE) & ~around)
    outer = batched = np.flatnonzero(ops.named(BATCHED.__contains__))
    while ((above := caller[outer]) != NONE).any():
        outer = np.where(above == NONE, outer, above).astype(np.int64)
    product = ops.named(_PRODUCTS.__contains__)[top] & np.isin(top, outer)
    softmax = (ops.named(_SOFTMAX.__contains__) & ops.in_phase(FORWARD, OPERATORS))[top]
    spans = _around(softmax, product, BEHIND)
    inner = dict(zip(outer.tolist(), ops.rows[batched].tolist(), strict=True))
    first, at, last = (top[column].tolist() for column in spans)
    calls = [
        [inner[one], int(ops.rows[two]), inner[three]]
        for one, two, three in zip(first, at, last, strict=True)
    ]
    sizes = dict(arguments_of(ops.trace, np.unique(np.array(calls[:MOST_READ], dtype=np.int64))))
    joins = [_joins(*(sizes[row].get("Input Dims") for row in rows)) for rows in calls[:MOST_READ]]
    is_joined = any(joins)
    if not joins or not (is_joined or None in joins):
        return None
    # Those that were not read are taken for what most of the others are.
    usual = not is_joined or joins.count(True) * 2 >= len(joins)
    chosen = np.array([join is (True if is_joined else None) for join in joins], dtype=bool)
    chosen = np.concatenate([chosen, np.full(len(calls) - len(joins), usual)])
    mine = counted = ops.at(top[_between(spans[:, chosen], len(top))])
    if usual:
        # Also in the backward pass: from product to product around each softmax's node.
        node = ops.named(lambda name: name.endswith(": SoftmaxBackward0"))[top]
        back = ops.named(lambda name: name.endswith((": BmmBackward0", ": BaddbmmBackward0")))[top]
        mine = mine | ops.at(top[_between(_around(node, back, BEFORE), len(top))])
    return work_of(ops, ops.within(mine), counted), is_joined


def _around(softmax: Mask, product: Mask, behind: int) -> Int64:
    """The product before each softmax, the softmax, and the product after it, a column each, where
    they are at most ``BEFORE`` and ``behind`` away."""
    at, products = np.flatnonzero(softmax), np.flatnonzero(product & ~softmax)
    following = np.searchsorted(products, at)
    edged = np.concatenate([[-BEFORE - 1], products, [len(product) + behind]])
    first, last = edged[following], edged[following + 1]
    near = (at - first <= BEFORE) & (last - at <= behind)
    return np.stack([first, at, last])[:, near].astype(np.int64)


def _between(spans: Int64, count: int) -> Mask:
    """Which of ``count`` operators lie between the products of ``spans``."""
    turns = np.zeros(count + 1, dtype=np.int64)
    np.add.at(turns, spans[0] + 1, 1)
    np.add.at(turns, spans[2], -1)
    return np.cumsum(turns[:-1]) > 0


def _joins(first: Any, softmax: Any, second: Any) -> bool | None:
    """Whether a softmax of that size is of the first batched product and an operand of the second,
    by the sizes of all inputs; None if they are not recorded."""
    try:
        left, right = [size for size in first if len(size) == _BATCHED_DIMS][-2:]
        operands = [prod(size) for size in second if len(size) == _BATCHED_DIMS]
        made, last = left[0] * left[1] * right[2], softmax[0][-1]
    except (IndexError, TypeError, ValueError):
        return None
    return made == prod(softmax[0]) in operands and last in (left[1], right[2])


_MULTIPLIES = frozenset({"matmul", "bmm", "einsum", "baddbmm"})
_SCALES = frozenset({"where", "masked_fill", "add", "mul", "div", "clamp", "dropout"})
"""Functions whose result is as their argument, but for scale and mask."""


@lru_cache(maxsize=16)
def joined_in_source(program: Program) -> tuple[int, ...]:
    """Lines of products of a softmax of a product, followed by names within each function."""
    functions = (node for named in program.functions.values() for node in named)
    return tuple(line for node in functions for line in _Scores(set(), set()).multiplied_in(node))


@dataclass(frozen=True)
class _Scores:
    """Variables of a function that hold products, but for scale and mask, and their softmax."""

    scores: set[str]
    weights: set[str]

    def multiplied_in(self, function: ast.AST) -> Iterator[int]:
        """Lines of products with such a softmax as an operand."""
        nodes = [node for node in ast.walk(function) if isinstance(node, ast.expr | ast.Assign)]
        for node in sorted(nodes, key=lambda node: (node.end_lineno or 0, -node.col_offset)):
            if isinstance(node, ast.Assign):
                names = {target.id for target in node.targets if isinstance(target, ast.Name)}
                if not _is_product(node.value) and self._has_softmax(node.value):
                    self.weights.update(names)
                elif self._is_of_scores(node.value):
                    self.scores.update(names)
            elif _is_product(node) and self._has_softmax(node):
                yield node.lineno

    def _is_of_scores(self, node: ast.AST) -> bool:
        if _is_product(node) or (isinstance(node, ast.Name) and node.id in self.scores):
            return True
        inner = (ast.BinOp, ast.Subscript, ast.UnaryOp, ast.IfExp)
        parts = ast.iter_child_nodes(node) if isinstance(node, inner) else _object_of(node)
        if isinstance(node, ast.Call) and called_name(node) in _SCALES:
            parts = (*parts, *node.args)
        return any(map(self._is_of_scores, parts))

    def _has_softmax(self, node: ast.AST) -> bool:
        return any(
            (isinstance(part, ast.Name) and part.id in self.weights)
            or (
                isinstance(part, ast.Call)
                and called_name(part) == "softmax"
                and any(map(self._is_of_scores, (*_object_of(part), *part.args)))
            )
            for part in ast.walk(node)
        )


def _is_product(node: ast.AST) -> bool:
    is_operator = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    return is_operator or (isinstance(node, ast.Call) and called_name(node) in _MULTIPLIES)


def _object_of(node: ast.AST) -> tuple[ast.AST, ...]:
    """What a method is called on."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return (node.func.value,) if is_method else ()  # type: ignore[attr-defined] # of a call


@rule(
    when="attention runs softmax between two matrix products as separate kernels",
    limits=Limits(),
    fixes=("attention-fused",),
    answer="call torch.nn.functional.scaled_dot_product_attention",
)
def unfused_attention(facts: Facts) -> Lost | None:
    """Attention written by hand writes the scores of all pairs of positions to memory, and reads
    them back for each operator. The cost is the time between the two matrix products."""
    judged = operator_work(facts, whole=True)
    analysis = judged.operators.steps.analysis
    # ATTENTION_MASK reports what torch itself writes out.
    written = None if MATH in analysis.trace.names else written_out_attention(analysis)
    if written is None:
        return None
    work, is_joined = written
    if not is_joined and not in_own_files(facts, joined_in_source):
        share = judged.time_of(work).won / judged.of.mean
        raise UnknownError(Question(Evidence.SHAPES, "whether a softmax is attention", share))
    return judged.lost(
        work,
        judged.line_of(FORWARD, _WRITTEN),
        "Between the two matrix products of attention{at} {part} goes into softmax, masks and "
        "scaling, each of which moves the scores of all pairs of positions through memory.",
        "between the products of attention",
        Figure("operators between them in forward", work.calls, "count"),
        operator="aten::softmax",
    )


_WRITTEN = r"softmax|\bbmm\b|\bmatmul\b|einsum|masked_fill| @ |baddbmm"
"""Lines with a part of attention that is written out."""

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
            arguments = trace.read_arguments(int(rows[wanted][np.argmax(kernels.duration[wanted])]))
            return _square(arguments) if "Input Dims" in arguments else ()
        rows = kinds.callers(trace, rows)
    return None


def _square(arguments: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The mask's size if it is the same for every sequence and head: others are biases."""
    try:
        sizes, strides = (arguments[key][_BIAS] for key in ("Input Dims", "Input Strides"))
        is_one = all(s == 1 or not stride for s, stride in zip(sizes[:-2], strides, strict=False))
        return tuple(sizes[-2:]) if is_one and sizes[-1] == sizes[-2] else None
    except (KeyError, IndexError, TypeError):
        return None


MATH = "aten::_scaled_dot_product_attention_math"


def _slow_path(facts: Facts) -> Lost | None:
    judged = operator_work(facts, whole=True)
    written = written_out_attention(judged.operators.steps.analysis)
    separate = "kernels" if judged.on_device else "operators"
    lost = written and judged.lost(
        written[0],
        judged.line_of(FORWARD, "attention"),
        "scaled_dot_product_attention falls back to its slow path, with softmax and mask as "
        f"separate {separate}: they take {{part}}.",
        "between the products of attention",
        Figure("operators between them in forward", written[0].calls, "count"),
        operator=MATH,
    )
    if lost is None or judged.on_device:
        return lost
    on_cpu = "the CPU's fused kernel has no dropout: leave it out of attention if the model can"
    return replace(lost, worst=Severity.INFO, advice=on_cpu)


@rule(
    when="scaled_dot_product_attention reads a mask from memory, or falls back to its slow path",
    limits=Limits(),
    answer=(
        "pass is_causal=True instead of a mask, use 16 bits, and enable the backends of "
        "torch.nn.attention"
    ),
)
def attention_mask(facts: Facts) -> Lost | None:
    """FlashAttention takes causal masks only; other kernels read attn_mask and compute pairs that a
    causal mask skips. Without a fused kernel for the data type, head size or device, torch computes
    softmax between two matrix products."""
    if facts.analysis is not None and MATH in facts.analysis.trace.names:
        return _slow_path(facts)
    work = kernel_work(facts)
    mask, attention = masked_attention(work.kernels.analysis), work.kernels.of(Category.ATTENTION)
    if mask is None:
        return None
    # A causal kernel skips half of the pairs.
    saved = attention.time // 2
    if not mask:
        share = work.won(saved) / work.of.mean
        raise UnknownError(Question(Evidence.SHAPES, "whether attention could be faster", share))
    sizes = " x ".join(str(size) for size in mask)
    return work.lost(
        attention,
        saved,
        f"Attention takes {work.of_step(attention.time)} and reads a mask of {sizes} from memory, "
        "which rules out the fastest kernels.",
        Figure("kernels a step", attention.count, "count"),
        unproven="whether the mask is causal",
    )
