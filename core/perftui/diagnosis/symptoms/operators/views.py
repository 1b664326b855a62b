"""Views that cost whole tensors: gradients of their pieces, and operands expanded for a product."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, rule
from perftui.diagnosis.symptoms.operators.work import operator_work
from perftui.facts.cpu.operators import NODE, NUMBER, Work, operators, work_of
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.question import Evidence, Question
from perftui.facts.source.operator_lines import line_of, line_with
from perftui.facts.source.source_calls import loop_of
from perftui.trace.model import NONE, Mask

_PIECE_NODE = re.compile(
    rf"{NODE}(Slice|Select|AsStrided|Diagonal|Index|IndexSelect|Gather)Backward\d*$"
)
"""Nodes that write a gradient into a tensor of zeros. ``UnbindBackward`` and ``SplitBackward`` join
the gradients of all pieces in one."""

_PIECE = re.compile(r"aten::(slice|select|narrow|as_strided|diagonal|index|index_select|gather)$")
_ZEROS = re.compile(r"aten::(zeros|new_zeros|zeros_like|zero_|fill_)$")
_ADDS = re.compile(r"aten::add_?$")
_RECURRENT = re.compile(r"aten::(lstm|gru|rnn_tanh|rnn_relu)$")
_PACKS = frozenset({"pack_padded_sequence", "pack_sequence"})
_TAKES = r"\w\[[^\]]+\]|\.(select|narrow|index_select|gather|diagonal)\("
_ASSIGNS = r"\]\s*[-+*/]?=[^=]|\.(copy|add|mul|index_\w+|masked_\w+)_\("

FEWEST_PIECES = 2
"""Pieces of a tensor from which joining them is less work than filling a tensor for each."""


OF_TORCH = 3
"""Pieces that torch's own attention takes of a tensor: the queries, keys and values."""


@trace_fact
def filled_gradients(analysis: TraceAnalysis) -> tuple[Work, int, str] | None:
    """Gradients of pieces of the same tensors; None without any. Each node fills a tensor as large
    as the whole, and every one but a tensor's first adds it to the others.

    What fills and adds, whose calls are the pieces; the tensors of a step that these are of; and
    the operator of the forward pass that takes most of them.
    """
    ops = operators(analysis)
    nodes = ops.named(_PIECE_NODE.match)
    inside = ops.within(nodes)
    added = ops.named(_ADDS.match) & ops.called_by(nodes)
    tensors = int(np.count_nonzero(nodes) - np.count_nonzero(added))
    if np.count_nonzero(nodes) < FEWEST_PIECES * max(tensors, 1):
        return None
    mine = ops.within((inside & ops.named(_ZEROS.match)) | added)
    taken = np.flatnonzero(ops.named(_PIECE.match) & ~ops.in_phase(BACKWARD))
    while (above := ops.caller[taken]).max(initial=NONE) != NONE:
        taken = np.where(above == NONE, taken, above)
    counts = np.bincount(ops.name[taken], minlength=1)
    taken_by = ops.trace.names[int(counts.argmax())] if len(taken) else ""
    return work_of(ops, mine | nodes, nodes), max(tensors // max(ops.steps.steps, 1), 1), taken_by


@trace_fact
def assigned_slices(analysis: TraceAnalysis) -> Work:
    """Gradients of assignments to slices: each copies that of the whole tensor."""
    ops = operators(analysis)
    nodes = ops.named(f"{NODE}torch::autograd::CopySlices".__eq__)
    copying = ops.within(nodes) & ops.named(re.compile(r"aten::(copy_|clone)$").match)
    return work_of(ops, ops.within(copying) | nodes, nodes)


@rule(
    when="backward fills or copies whole tensors for the gradients of their pieces",
    limits=Limits(),
    answer=(
        "take all pieces at once with unbind(), split() or chunk(), and stack results from a list"
    ),
)
def filled_gradients_rule(facts: Facts) -> Lost | None:
    """The gradient of x[:, t] is a tensor as large as x, zeros but for that piece, and those of all
    pieces are summed. An assignment to a slice copies the whole gradient. On the CPU, recurrent
    layers do this to packed sequences without oneDNN. The cost is the time of these zeros, sums and
    copies."""
    work = operator_work(facts)
    filled = filled_gradients(work.operators.steps.analysis)
    assigned = assigned_slices(work.operators.steps.analysis)
    if filled is None or assigned.by_phase.sum() > filled[0].by_phase.sum():
        lost = work.lost(
            assigned,
            line_of(facts, FORWARD, _ASSIGNS),
            "Backward copies the gradient of a whole tensor for each of {calls} assignments to "
            "slices{at}, which takes {part}.",
            "copies of gradients",
            Figure("assignments of a step", assigned.calls, "count"),
            operator="torch::autograd::CopySlices",
        )
        return replace(
            lost, advice="collect the pieces in a list, and call torch.stack() or cat() once"
        )
    pieces, tensors, taken_by = filled
    is_packed = _RECURRENT.match(taken_by) is not None
    if is_packed:
        line = line_with(facts, _PACKS)
    else:
        line = line_of(facts, FORWARD, _TAKES, only=True)
        line = line or loop_of(facts, (taken_by,), pieces=True)
        if line is None and pieces.calls <= OF_TORCH * tensors:
            return None
    how = f"{taken_by} takes a packed sequence apart, and backward" if is_packed else "Backward"
    lost = work.lost(
        pieces,
        line or line_of(facts, FORWARD),
        f"{how} fills a whole tensor with zeros for each of {{calls}} pieces of "
        f"{fmt.several(tensors, 'tensor')}{{at}} and adds them up, which takes {{part}}.",
        "zeros and sums of gradients",
        Figure("pieces", pieces.calls, "count"),
        Figure("tensors", tensors, "count"),
        operator=taken_by or None,
    )
    advice = (
        "pass padded input, and take the output at the last position of each row"
        if is_packed
        else ""
    )
    return replace(lost, advice=advice)


_PRODUCT = re.compile(r"aten::(mm|addmm|bmm|baddbmm|_scaled_dot_product\w+)$")
_PRODUCT_NODE = re.compile(r"(Mm|Addmm|Bmm|Baddbmm|ScaledDotProduct\w+)Backward\d*$")
_EXPAND_NODE = re.compile(r"ExpandBackward\d*$")
_MULTIPLIES = (
    r" @ |\b(matmul|b?mm|baddbmm|einsum|expand\w*|repeat\w*|scaled_dot_product_attention)\("
)

NEAR = 40
"""Most operators, called ones included, from the copy of an operand to the product: the other
operand may be copied in between."""

MOST_READ = 1_000
"""Most copies, and most nodes, whose numbers are read, 5 us each: all steps do the same."""

THIN = 16
"""Rows or columns up to which a product reads its other operand more than it computes."""


@dataclass(frozen=True, eq=False)
class Expanded:
    """Operands of matrix products that are expanded and copied."""

    copying: Mask
    """The copies, and the sums of their gradients, by position in ``Operators``."""
    work: Work
    """The same; its calls are the copies."""
    products: Work
    """The products and their backward pass; its calls are the products."""
    are_thin: bool | None
    """Whether all products have few rows or columns; None if sizes were not recorded."""


@trace_fact
def expanded_operands(analysis: TraceAnalysis) -> Expanded | None:
    """Copies before products of tensors that ``expand`` has made larger; None without any.

    A copy is of such a tensor if a recorded stride of it is 0, or if its number follows that of an
    ``expand`` whose gradient is summed: one that makes nothing larger sums nothing.
    """
    ops = operators(analysis)
    forward = ~ops.in_phase(BACKWARD)
    copies = ops.at(ops.caller[ops.named("aten::copy_".__eq__) & (ops.caller != NONE)])
    at = np.flatnonzero(copies & ops.named("aten::clone".__eq__) & forward)
    products = np.append(np.flatnonzero(ops.named(_PRODUCT.match) & forward), len(forward) + NEAR)
    following = products[np.searchsorted(products, at)]
    near = np.flatnonzero(following - at < NEAR)[:MOST_READ]
    at, following = at[near], following[near]
    most = MOST_READ if len(at) else 0
    sums = ops.named("aten::sum".__eq__) & ops.called_by(ops.named(_EXPAND_NODE.match))
    summed = ops.caller[sums][:most].astype(np.int64)
    back = np.flatnonzero(ops.named(_PRODUCT_NODE.match))[:most]
    known = ops.arguments(np.concatenate([at, following, summed, back]))
    node_of = {known[node].get(NUMBER): node for node in summed.tolist()}
    mine, counted, multiplied = (ops.at() for _ in range(3))
    for copy, product in zip(at.tolist(), following.tolist(), strict=True):
        number = known[copy].get(NUMBER)
        node = node_of.get(number - 1) if isinstance(number, int) else None
        if node is not None or _repeats(known[copy]):
            counted[copy] = multiplied[product] = True
            mine[node if node is not None else copy] = True
    if not counted.any():
        return None
    chosen = np.flatnonzero(multiplied).tolist()
    numbers = {known[product].get(NUMBER) for product in chosen} - {None}
    goes_back = ops.at([node for node in back.tolist() if known[node].get(NUMBER) in numbers])
    mine = ops.within(mine | counted)
    return Expanded(
        mine,
        work_of(ops, mine, counted),
        work_of(ops, ops.within(multiplied | goes_back), multiplied),
        all(_is_thin(known[product]) for product in chosen)
        if all("Input Dims" in known[product] for product in chosen)
        else None,
    )


def _repeats(arguments: Mapping[str, Any]) -> bool:
    """Whether the first input has a dimension that repeats, by its recorded strides."""
    sizes, strides = (arguments.get(name) or [[]] for name in ("Input Dims", "Input Strides"))
    pairs = zip(sizes[0], strides[0], strict=False)
    return any(size != 1 and stride == 0 for size, stride in pairs)


def _is_thin(arguments: Mapping[str, Any]) -> bool:
    """Whether a product has few rows or columns, by the recorded sizes of its operands."""
    sizes = [size for size in arguments.get("Input Dims", ()) if len(size) > 1]
    return len(sizes) > 1 and min(sizes[-2][-2], sizes[-1][-1]) <= THIN


@rule(
    when="an operand is expanded and copied before a matrix product",
    limits=Limits(),
    answer=(
        "use torch.einsum, or fold the batch into one product; in attention, pass enable_gqa=True"
    ),
)
def expanded_operand(facts: Facts) -> Lost | None:
    """matmul copies an operand that it or expand() repeats, and its gradient is as large again and
    summed. The cost is the time of these copies and sums; one larger product saves more."""
    work = operator_work(facts)
    expanded = expanded_operands(work.operators.steps.analysis)
    if expanded is None:
        return None
    products = work.time_of(expanded.products)
    count = fmt.several(expanded.products.calls, "matrix product")
    lost = work.lost(
        expanded.work,
        line_of(facts, FORWARD, _MULTIPLIES),
        f"An operand is expanded and copied before {count}{{at}}: the copies, and the sums of "
        f"their gradients, take {{part}}, and the products {fmt.duration(products.ns)}.",
        "copies and sums",
        Figure("copies of a step", expanded.work.calls, "count"),
        Figure("the products", products.ns, "ns"),
        operator="aten::clone",
    )
    if not expanded.are_thin:
        about, most = "whether the products are thin", products.won / 2 / work.of.mean
        worth = Question(Evidence.SHAPES, about, most)
        return replace(lost, is_least=True, question=worth if expanded.are_thin is None else None)
    # Folded, they are few large products: of a weight of 4 x 96 x 96 and a batch of 64 a ninth.
    cost = min(lost.cost_ns + products.won // 2, work.of.mean)
    return replace(
        lost, cost_ns=cost, share=cost / work.of.mean, label="copies, sums, thin products"
    )
