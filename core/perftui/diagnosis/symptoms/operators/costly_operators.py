"""Operators that take much of the step: one that something cheaper may replace, sorting, and
products whose result is hardly used."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from perftui import format as fmt
from perftui.analysis.intervals import sums
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD, OPTIMIZER, OTHER
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Claim, Limits, Lost, rule
from perftui.diagnosis.symptoms.operators.elementwise import POINTWISE_CALL, POINTWISE_NODE
from perftui.diagnosis.symptoms.operators.work import operator_work
from perftui.facts.cpu.operators import PHASES, Operators, Work, all_operators, operators, work_of
from perftui.facts.fact import Facts, fact, notes_of, trace_fact
from perftui.facts.gpu.idle import device_steps
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import calls_of
from perftui.facts.source.source_calls import call_of, in_own_files
from perftui.script.ignored import ignored_by_loss
from perftui.trace.model import NONE, Int64

_NODE = re.compile(r"(autograd::engine::evaluate_function: )?(?P<name>\w+?)(Backward)+\d*$")
_HOOKED = re.compile(r"autograd::engine::evaluate_function: |torch::autograd::AccumulateGrad$")

USEFUL = re.compile(
    r"(aten::|torch::autograd::|autograd::engine::evaluate_function: )?_?"
    r"(linear|matmul|mm|bmm|addmm|baddbmm|addmv|mv|einsum|conv|thnn_conv|mkldnn|slow_conv|lstm|gru"
    r"|rnn|scaled_?dot_?product|multi_head|native|layer_norm|batch_norm|group_norm|instance_norm"
    r"|relu|leaky|gelu|silu|elu|hardswish|threshold|softmax|log_softmax|cross_entropy|nll_loss"
    r"|mse_loss|max_pool|avg_pool|adaptive|to$|_to_copy|contiguous|clone|copy_$|reshape"
    r"|accumulategrad|torch::autograd|foreach|fused|nativelayernorm|nativebatchnorm|t$|unsafeview"
    r"|tocopy|view|select|slice|narrow|unbind|split|chunk|masked_?fill|dropout|embedding(?!_renorm)|sparse_?\w*mm|fft|torch::jit|tritonkernel|compiled|call_compiled)",
    re.IGNORECASE,
)
"""Operators that models are made of, which nothing cheaper replaces, and those with rules of their
own: copies, casts and element-wise operators."""

_OF_COMPILER = re.compile(
    r"Torch-Compiled Region|TorchDynamo |dynamo\b|Pregraph bytecode|AOTDispatcher |## Call "
    r"|.*\(dynamo_timed\)|.*compile_id="
)
"""Ranges of ``torch.compile`` that look like operators: what it compiled, and its own work, which
has its own rule."""

_NOT_ASKED = (USEFUL, _OF_COMPILER, POINTWISE_CALL, POINTWISE_NODE)


def plain(name: str) -> str:
    """One spelling for an operator and its node of the backward pass: ``aten::linalg_svd`` and
    ``LinalgSvdBackward0`` are both ``linalgsvd``."""
    node = _NODE.match(name)
    word = node["name"] if node else name.removeprefix("aten::")
    return word.replace("_", "").lower()


@trace_fact
def costliest(analysis: TraceAnalysis) -> tuple[str, Work] | None:
    """Name and work of the longest kind of operator outside the optimizer that models are not made
    of, with its backward pass; None without any. Without known steps the whole trace is used, where
    names of scripts' own do not count as operators. On a GPU only operators of torch: those of
    other libraries are made to be fast there, and sorting has its own rule."""
    ops = all_operators(analysis)
    called = ops.named(lambda name: _may_be_slow(name, ops)) & ~ops.in_phase(OPTIMIZER)
    # What the hooks of tensors and parameters call stands inside these.
    hooked = ops.named(lambda name: name.startswith("aten::"))
    hooked &= ops.called_by(ops.named(_HOOKED.match))
    top = np.flatnonzero(called & (hooked | (ops.caller == NONE)))
    spent = sums(ops.name[top], ops.spent[top], len(ops.trace.names))
    taken = {ops.trace.names[at]: int(spent[at]) for at in np.flatnonzero(spent).tolist()}
    kinds_ = [name for name in taken if name.startswith("aten::")]
    if not ops.device:
        known = {plain(name) for name in kinds_}
        kinds_ += [name for name in taken if plain(name) not in known]

    def whole(kind: str) -> int:
        return sum(ns for name, ns in taken.items() if _is_of(kind, name))

    kind = max(kinds_, key=whole, default=None)
    if kind is None:
        return None
    mine = ops.at(top) & called & ops.named(lambda name: _is_of(kind, name))
    return kind, work_of(ops, ops.within(mine), mine & ops.named(kind.__eq__))


def _may_be_slow(name: str, ops: Operators) -> bool:
    if ops.device and (name in _CALLED_AS or not ("aten::" in name or _NODE.match(name))):
        return False
    # Functions and ranges of the script's own hold operators that are judged by themselves.
    called = name.rpartition(": ")[2]
    is_operator = "::" in called or _NUMBERED.search(called)
    return bool(is_operator) and not any(pattern.match(name) for pattern in _NOT_ASKED)


_NUMBERED = re.compile(r"Backward\d+$")
"""End of names of torch's own nodes; those of a script's ``autograd.Function`` have no number."""


def _is_of(kind: str, name: str) -> bool:
    """Whether ``name`` is that operator or the node of its backward pass, which has a similar
    name."""
    key, other = plain(kind), plain(name)
    is_node = _NODE.match(name) is not None
    return key == other or (is_node and (key.startswith(other) or other.startswith(key)))


@rule(
    when="one operator, no matrix product or convolution, takes much of the step",
    limits=Limits("Without another formula from 25 %.", 0.25, 0.50),
    answer="use a cheaper operator or formula (topk for sort), or call the operator less often",
)
def slow_operator(facts: Facts) -> Lost | None:
    """The cost is half of the operator's time or, with the sizes of tensors, what another formula
    saves: for long filters, sums over pairs of vectors, matrices of zeros, or one matrix decomposed
    for each sample."""
    work, kind = operator_work(facts, whole=True), costliest(facts)
    if kind is None or (work.on_device and not work.operators.steps.steps):
        return None
    name, taken = kind
    phase = taken.longest_of(*(phase for phase in PHASES if phase != BACKWARD))
    backward, all_phases = int(taken.by_phase[PHASES.index(BACKWARD)]), int(taken.by_phase.sum())
    line = work.line_of(phase, calls_of(name), only=True)
    lost = work.lost(
        taken,
        line or call_of(facts, name) or work.line_of(phase),
        f"{name}{{at}} takes {{part}}"
        f"{', with its backward pass' if 0 < backward < all_phases else ''}.",
        name,
        Figure("calls in a step", taken.calls, "count"),
        operator=name,
        unproven="what another operator would take instead",
    )
    # Within the model something cheaper must replace it.
    outside = int(taken.by_phase[PHASES.index(OTHER)]) / max(all_phases, 1)
    worst = Severity.INFO if _CHEAPEST.match(name) else Severity.CRITICAL
    return replace(lost, cost_ns=round(lost.cost_ns * (1 + outside) / 2), worst=worst)


_CHEAPEST = re.compile(r"aten::(linalg_)?(cholesky(_solve|_inverse)?|\w*triangular\w*)$")
"""Operators than which there is hardly a cheaper one that does the same."""


_CALLED_AS = {
    "aten::sort": "sort",
    "aten::argsort": "argsort",
    "aten::msort": "msort",
    "aten::topk": "topk",
    "aten::_unique": "unique",
    "aten::_unique2": "unique",
    "aten::unique_dim": "unique",
}
"""Operators that sort, and their names in scripts. ``unique_consecutive`` does not sort."""

_SORTING = re.compile(r"sort|topk", re.IGNORECASE)
"""Part of names of kernels that sort. Not all belong to sorting operators: the gradients of
embeddings are sorted by row as well."""


@rule(
    when="operators that sort take much of the GPU's time",
    limits=Limits("The model may need part of it.", 0.10, 0.30),
    claims=Claim(kernels=_SORTING.search),
    answer=(
        "sort every N steps if only metrics or logs need it, or use topk in place of a full sort"
    ),
)
def sorting(facts: Facts) -> Lost | None:
    """sort, argsort, topk and unique pass through a tensor several times. The cost is the time of
    all their kernels, the most that can be gained. Sorts in the backward pass of an embedding are
    not counted."""
    # On the CPU it is a slow operator like others.
    device_steps(facts)
    work = operator_work(facts, whole=True)
    ops = work.operators
    sorts = ops.named(_CALLED_AS.__contains__)
    if not sorts.any():
        return None
    longest = int(np.argmax(np.where(sorts, ops.spent, NONE)))
    name, row = ops.trace.names[ops.name[longest]], int(ops.rows[longest])
    # An operator called by another one is not in the script by that name.
    is_called = ops.caller[longest] == NONE
    line = work.stack_line(row) or (call_of(facts, _CALLED_AS[name]) if is_called else None)
    return work.lost(
        work_of(ops, ops.within(sorts), sorts),
        line,
        "The GPU sorts for {part}{at}.",
        "sorting",
        operator=name,
        unproven="whether each step needs what is sorted",
    )


_PRODUCT = re.compile(r"aten::(linear|matmul|mm|addmm|bmm|baddbmm|einsum)$")
_PIECE = re.compile(r"aten::(select|gather|index|index_select|take_along_dim)$")
_TAKES = re.compile(r"aten::(select|slice|gather|index|index_select|take_along_dim|unbind|split)$")
_VIEW = re.compile(r"aten::(view|reshape|transpose|permute|t|squeeze|unsqueeze|flatten|unflatten)$")
_PRODUCT_NODE = re.compile(r".*: (Mm|Addmm|Bmm|Baddbmm)Backward\d*$")
_PIECE_NODE = re.compile(r".*: (Select|Gather|Index|IndexSelect)Backward\d*$")

LEAST_NS = 500_000
"""ns below which a product is small, whatever is used of it."""

LEAST_ON_GPU_NS = 50_000
"""The same for its kernels: NVIDIA's cards multiply some ten times as fast as a CPU's cores."""

NEAR = 6
"""Most nodes from that of a piece to that of its product: bias sums and views lie between."""


@trace_fact
def dropped_results(analysis: TraceAnalysis) -> Work:
    """Products of the model with only one piece of the result used (``logits[:, -1]``, a gather),
    with the backward pass of both. If several pieces are taken, as from a projection to queries,
    keys and values, all of it may be used."""
    ops = operators(analysis)
    top = ops.top_by_start
    dropped = _products(ops, top)
    nodes = _nodes(ops, top, len(dropped), _PIECE_NODE)
    if not len(nodes) and ops.in_phase(BACKWARD)[top].any():
        # Without a node that fills the rest with zeros, a piece of another tensor is taken.
        dropped = dropped[:0]
    return work_of(ops, ops.within(ops.at(dropped, nodes)), ops.at(dropped))


def _products(ops: Operators, top: Int64) -> Int64:
    called = top[~ops.in_phase(BACKWARD, OPTIMIZER)[top]]
    called = called[~ops.named(_VIEW.match)[called]]
    least = LEAST_ON_GPU_NS if ops.device else LEAST_NS
    product = ops.named(_PRODUCT.match)[called] & (ops.spent[called] >= least)
    piece, takes = (ops.named(pattern.match)[called] for pattern in (_PIECE, _TAKES))
    is_select = ops.named("aten::select".__eq__)[called][1:-1]
    # Rows chosen of another tensor are what a product is multiplied by, as experts by their gate.
    is_only = np.where(is_select, ~takes[2:], ~ops.named("aten::mul".__eq__)[called][2:])
    return called[np.flatnonzero(product[:-2] & piece[1:-1] & is_only)]


def _nodes(ops: Operators, top: Int64, count: int, of_piece: re.Pattern[str]) -> Int64:
    """Nodes of ``count`` pieces and their products that follow each other, the longest ones."""
    nodes = top[ops.in_phase(BACKWARD)[top]]
    piece, product = (ops.named(pattern.match)[nodes] for pattern in (of_piece, _PRODUCT_NODE))
    at = np.flatnonzero(piece)
    # Far away if none follows.
    places = np.append(np.flatnonzero(product), len(product) + NEAR + 1)
    following = places[np.searchsorted(places, at, side="right")]
    near = following - at <= NEAR
    pairs = np.stack([nodes[at[near]], nodes[np.minimum(following[near], len(nodes) - 1)]], axis=1)
    return np.unique(pairs[np.argsort(-ops.spent[pairs].sum(axis=1), kind="stable")[:count]])


_PRODUCT_TEXT = r"linear|matmul|einsum|\bmm\(|bmm\(| @ |head|proj|logits|score|output|decode"


@rule(
    when="a matrix product is computed in full, but only part of its result is used",
    limits=Limits("Half of the product is a safe estimate.", 0.10, 0.40),
    answer="index the input or the weights before the product",
)
def dropped_results_rule(facts: Facts) -> Lost | None:
    """The script takes one part of the product, such as logits[:, -1], and backward fills the rest
    of its gradient with zeros. The cost is half of the product."""
    judged, work = operator_work(facts), dropped_results(facts)
    if not work.calls:
        return None
    return judged.lost(
        work,
        judged.line_of(work.longest_of(FORWARD, OTHER), _PRODUCT_TEXT),
        "A matrix product{at} is computed in full, but only part of its result is used: {part}, "
        "backward pass included.",
        "the product",
        Figure("such products in a step", work.calls, "count"),
        operator="aten::linear",
        # The size of the piece is not visible.
        saved=0.5,
        unproven="how large a part of the result is used",
    )


_LOSS = re.compile(r"aten::(cross_entropy_loss|nll_loss\w*|_?log_softmax)$")
_LOSS_NODE = re.compile(r".*: LogSoftmaxBackward\d*$")


@trace_fact
def head_and_loss(analysis: TraceAnalysis) -> Work:
    """The products whose results a loss over classes gets, and that loss, with the backward pass of
    both."""
    ops = operators(analysis)
    top = ops.top_by_start
    called = top[~ops.in_phase(BACKWARD, OPTIMIZER)[top]]
    products = np.flatnonzero(ops.named(_PRODUCT.match)[called])
    losses = np.flatnonzero(ops.named(_LOSS.match)[called])
    at = np.searchsorted(products, losses) - 1
    losses, at = losses[at >= 0], at[at >= 0]
    near = losses - products[at] <= NEAR
    heads = ops.at(called[products[at[near]]])
    nodes = _nodes(ops, top, int(heads.sum()), _LOSS_NODE)
    return work_of(ops, ops.within(heads | ops.at(called[losses[near]], nodes)), heads)


@fact
def ignored_targets(facts: Facts) -> float:
    """Share of the targets in the batches looked at that the loss ignores, padding aside, 0 to 1;
    0 if none has such targets."""
    looks = notes_of(facts.events, "padding")
    counts = np.array([[look.get(name) or 0 for name in _COUNTS] for look in looks] or [[0] * 4])
    targets, ignored, tokens, padded = counts[counts[:, 0] > 0].sum(axis=0).tolist()
    return max(ignored / targets - padded / max(tokens, 1), 0.0) if targets else 0.0


_COUNTS = ("targets", "ignored", "tokens", "padded")

LEAST_IGNORED = 0.25
"""Share of ignored targets from which leaving them out pays: selecting the others takes time."""


@rule(
    when="the loss ignores many targets, but the model computes their logits",
    limits=Limits(),
    answer="apply the head only to positions whose targets count: head(hidden[targets != -100])",
)
def ignored_targets_rule(facts: Facts) -> Lost | None:
    """Targets of -100 add nothing to the loss. A few batches are read, or the script's own mask
    gives the share. The cost is the share of ignored targets, without padding, of the last product
    and the loss."""
    share, at_least, shown = ignored_targets(facts), "", None
    if share < LEAST_IGNORED:
        at_least = "at least "
        for file, shown in in_own_files(facts, ignored_by_loss):
            share, line = shown.share, LineShare(file, shown.line, held=1)
    if share < LEAST_IGNORED:
        return None
    judged, work = operator_work(facts), head_and_loss(facts)
    lost = judged.lost(
        work,
        line if shown else judged.line_of(FORWARD, _PRODUCT_TEXT),
        f"The loss ignores {at_least}{fmt.percent(share)} of the targets, but the logits of all "
        "are computed{at}: head and loss take {part}, backward pass included.",
        "what ignored targets take",
        Figure.share("of the targets are ignored", share, LEAST_IGNORED),
        operator="aten::linear",
        saved=share,
    )
    return replace(lost, advice=shown.instead if shown else "")
