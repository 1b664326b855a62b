"""Operators that take much of the step: one that something cheaper may replace, sorting, and
products whose result is hardly used."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD, OPTIMIZER, OTHER
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule
from perftui.diagnosis.symptoms.operators.elementwise import POINTWISE_CALL, POINTWISE_NODE
from perftui.diagnosis.symptoms.operators.work import PARTS, CpuWork, cpu_work, kernel_work, listed
from perftui.facts.cpu.operators import (
    PHASES,
    Operators,
    Work,
    all_cpu_operators,
    all_operators,
    operators,
    work_of,
)
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.gpu.kernels import StepKernels, launched_under
from perftui.facts.place import Place
from perftui.facts.source.operator_lines import calls_of, line_of
from perftui.facts.source.source_calls import call_of
from perftui.trace.model import NONE, Int64, Mask

_NODE = re.compile(r"(autograd::engine::evaluate_function: )?(?P<name>\w+?)Backward\d*$")

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


@dataclass
class Kind:
    """Outermost operators and nodes of the backward pass with one ``plain`` spelling."""

    name: str
    """Name of the operator, else of the node."""
    calls: int
    """Calls of the operator per step."""
    by_phase: Int64
    """Time of the calls including what they call, by index into ``PHASES``, ns."""


@trace_fact
def costliest(analysis: TraceAnalysis) -> Kind | None:
    """The longest kind of operator outside the optimizer that models are not made of, with its
    backward pass; None without any. Without known steps the whole trace is used, where names of
    scripts' own do not count as operators."""
    ops = all_operators(analysis)
    top = ops.top[ops.phase[ops.top] != PHASES.index(OPTIMIZER)]
    pairs = ops.name[top].astype(np.int64) * len(PHASES) + ops.phase[top]
    size = len(ops.trace.names) * len(PHASES)
    spent = np.bincount(pairs, ops.duration[top], size).astype(np.int64)
    counts = np.bincount(pairs, minlength=size)
    by_name: dict[str, Kind] = {}
    for number in np.flatnonzero(counts.reshape(-1, len(PHASES)).any(1)).tolist():
        name = ops.trace.names[number]
        is_operator = ops.steps.steps or "::" in name
        if not is_operator or any(pattern.match(name) for pattern in _NOT_ASKED):
            continue
        at = slice(number * len(PHASES), (number + 1) * len(PHASES))
        kind = by_name.setdefault(plain(name), Kind(name, 0, np.zeros(len(PHASES), np.int64)))
        kind.by_phase = kind.by_phase + spent[at]
        if name.startswith("aten::"):
            kind.name, kind.calls = name, int(counts[at].sum()) // max(ops.steps.steps, 1)
    whole = [_with_backward(key, by_name) for key in by_name]
    return max(whole, key=lambda kind: int(kind.by_phase.sum()), default=None)


def _with_backward(key: str, by_name: dict[str, Kind]) -> Kind:
    """Calls of kind ``key`` and of its own backward pass, which has a similar name."""
    mine = by_name[key]
    others = [
        kind.by_phase
        for other, kind in by_name.items()
        if other != key
        and "Backward" in kind.name
        and (key.startswith(other) or other.startswith(key))
    ]
    return replace(mine, by_phase=sum(others, mine.by_phase))


def _one_operator(facts: Facts) -> Lost | None:
    cpu, kind = CpuWork(facts, *all_cpu_operators(facts)), costliest(facts)
    if kind is None:
        return None
    called = (name for name, ns in zip(PHASES, kind.by_phase, strict=True) if ns)
    phase = next((name for name in called if name != BACKWARD), FORWARD)
    line = line_of(facts, phase, calls_of(kind.name), only=True)
    elsewhere = np.array([name == OTHER for name in PHASES])
    outside = cpu.time_of(np.where(elsewhere, kind.by_phase, 0)).ns
    goes_back = kind.by_phase[PHASES.index(BACKWARD)]
    lost = cpu.lost(
        Work(kind.by_phase, kind.calls),
        line or call_of(facts, kind.name) or line_of(facts, phase),
        f"{kind.name}{{at}} takes {{part}}{', with its backward pass' if goes_back else ''}.",
        kind.name,
        Figure("calls in a step", kind.calls, "count"),
        operator=kind.name,
        unproven="what another operator would take instead",
    )
    # Within the model something cheaper must replace it.
    return replace(lost, cost_ns=lost.cost_ns - (lost.cost_ns - outside) // 2)


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
    limits=Limits("Half of a quarter is an eighth of the step.", 0.25, 0.50),
    answer="a cheaper operator, or call it less often",
)

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


def is_sorting(name: str) -> bool:
    """Whether a kernel of that name sorts. Not all such kernels belong to sorting operators: the
    gradients of embeddings are sorted by row as well."""
    return _SORTING.search(name) is not None


def _sorted_by_operators(kernels: StepKernels) -> Mask:
    return launched_under(kernels, *_CALLED_AS)


def _sorted_by_any(kernels: StepKernels) -> Mask:
    """Also kernels that sort by their names, if the trace shows no operator around them."""
    unknown: Mask = kernels.operator == NONE
    return _sorted_by_operators(kernels) | (kernels.named(is_sorting) & unknown)


def _sorting(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    by_operators = work.kernels.kept(SORTING.id, _sorted_by_operators)
    most = work.kernels.kept(_sorted_by_any, _sorted_by_any)
    if not most.time:
        return None
    is_least = len(most) > len(by_operators)
    if is_least and work.won(by_operators.time) < SORTING.limits.warning * work.of.mean:
        return Lost(
            work.won(most.time),
            work.of,
            f"The GPU may sort for {work.of_step(most.time)}.",
            (*listed(most), work.steps),
            doubt="the trace does not show which operators launched the kernels that sort",
        )
    return Lost(
        cost_ns=work.won(by_operators.time),
        of=work.of,
        sentence=f"The GPU sorts for {work.of_step(by_operators.time)}.",
        figures=(
            Figure.share("of GPU compute", by_operators.time / work.kernels.time),
            *listed(by_operators),
            work.steps,
        ),
        place=_place(facts, by_operators),
        parts=PARTS,
        is_least=is_least,
        unproven="whether each step needs what is sorted",
    )


def _place(facts: Facts, kernels: StepKernels) -> Place:
    """Launch place of the longest kernel: the outermost sorting operator, and the only line that
    calls it. Samples of the host do not show the line: it only launches."""
    place, trace = kernels.place, kernels.analysis.trace
    operators = kinds.operators(trace)
    row, names = int(kernels.operator[kernels.rows == place.trace_row][0]), []
    while row != NONE:
        if operators[row]:
            names.append(trace.name_of(row))
        row = int(trace.parent[row])
    operator = [name for name in names if name in _CALLED_AS][-1]
    place = replace(place, operator=operator)
    # An operator called by another one is not in the script by that name.
    is_called = place.file is None and names[-1] == operator
    line = call_of(facts, _CALLED_AS[operator]) if is_called else None
    if line is None:
        return place
    return replace(place, rank=facts.rank_number, file=line.file, line=line.line)


SORTING = Rule(
    id="sorting",
    when="operators that sort take much of the GPU's time",
    explanation=(
        "torch.sort, argsort, msort, topk and unique pass through a tensor several times. Often "
        "they serve metrics, logs or samples that are not needed in every step: compute those "
        "every N steps. If only the largest or smallest values are needed, topk takes less than "
        "a full sort. The cost is the time of all kernels that these operators launch, so it is "
        "the most that can be gained. What the backward pass of an embedding sorts is not counted."
    ),
    lost=_sorting,
    limits=Limits(
        "The model may need part of it, hence a higher limit than for pure loss.", 0.10, 0.30
    ),
    claims=Claim(kernels=is_sorting),
    answer="compute it every N steps, or topk instead of a full sort",
)

_PRODUCT = re.compile(r"aten::(linear|matmul|mm|addmm|bmm|baddbmm|einsum)$")
_PIECE = re.compile(r"aten::(select|gather|index|index_select|take_along_dim)$")
_TAKES = re.compile(r"aten::(select|slice|gather|index|index_select|take_along_dim|unbind|split)$")
_VIEW = re.compile(r"aten::(view|reshape|transpose|permute|t|squeeze|unsqueeze|flatten|unflatten)$")
_PRODUCT_NODE = re.compile(r".*: (Mm|Addmm|Bmm|Baddbmm)Backward\d*$")
_PIECE_NODE = re.compile(r".*: (Select|Gather|Index|IndexSelect)Backward\d*$")

LEAST_NS = 500_000
"""ns below which a product is small, whatever is used of it."""

NEAR = 6
"""Most nodes from that of a piece to that of its product: bias sums and views lie between."""


@trace_fact
def dropped_results(analysis: TraceAnalysis) -> Work:
    """Products of the model with only one piece of the result used (``logits[:, -1]``, a gather),
    with the backward pass of both. If several pieces are taken, as from a projection to queries,
    keys and values, all of it may be used."""
    ops = operators(analysis)
    top = ops.top_by_start
    mine = np.zeros(len(ops.rows), dtype=bool)
    dropped = _products(ops, top)
    mine[dropped] = True
    nodes = _nodes(ops, top, len(dropped))
    mine[nodes] = True
    calls = np.zeros_like(mine)
    calls[dropped] = True
    return work_of(ops, ops.within(mine), calls)


def _products(ops: Operators, top: Int64) -> Int64:
    called = top[~ops.in_phase(BACKWARD, OPTIMIZER)[top]]
    called = called[~ops.named(_VIEW.match)[called]]
    product = ops.named(_PRODUCT.match)[called] & (ops.duration[called] >= LEAST_NS)
    piece, takes = (ops.named(pattern.match)[called] for pattern in (_PIECE, _TAKES))
    is_only = ~ops.named("aten::select".__eq__)[called][1:-1] | ~takes[2:]
    at = np.flatnonzero(product[:-2] & piece[1:-1] & is_only)
    chosen: Int64 = called[at]
    return chosen


def _nodes(ops: Operators, top: Int64, count: int) -> Int64:
    """Nodes of ``count`` pieces and their products that follow each other, the longest ones."""
    nodes = top[ops.in_phase(BACKWARD)[top]]
    piece, product = (ops.named(pattern.match)[nodes] for pattern in (_PIECE_NODE, _PRODUCT_NODE))
    at = np.flatnonzero(piece)
    # Far away if none follows.
    places = np.append(np.flatnonzero(product), len(product) + NEAR + 1)
    following = places[np.searchsorted(places, at, side="right")]
    near = following - at <= NEAR
    pairs = np.stack([nodes[at[near]], nodes[np.minimum(following[near], len(nodes) - 1)]], axis=1)
    longest = np.argsort(-ops.duration[pairs].sum(axis=1), kind="stable")[:count]
    chosen: Int64 = np.unique(pairs[longest])
    return chosen


_PRODUCT_TEXT = r"linear|matmul|einsum|\bmm\(|bmm\(| @ |head|proj|logits|score|output|decode"


def _dropped(facts: Facts) -> Lost | None:
    cpu, work = cpu_work(facts), dropped_results(facts)
    if not work.calls:
        return None
    called = {phase: int(work.by_phase[PHASES.index(phase)]) for phase in (FORWARD, OTHER)}
    return cpu.lost(
        work,
        line_of(facts, max(called, key=lambda phase: called[phase]), _PRODUCT_TEXT),
        "A matrix product{at} is computed in full, but only part of its result is used: {part}, "
        "backward pass included.",
        "the product",
        Figure("such products in a step", work.calls, "count"),
        operator="aten::linear",
        # The size of the piece is not visible.
        saved=0.5,
        unproven="how large a part of the result is used",
    )


DROPPED = Rule(
    id="dropped-results",
    when="a matrix product is computed in full, but only part of its result is used",
    explanation=(
        "Right after a large matrix product, the script takes one part of the result, such as the "
        "last position with logits[:, -1] or a few columns with gather. Index the input or the "
        "weights first and multiply only that part; the backward pass then does not fill the rest "
        "of the gradient with zeros. The cost is estimated as half of the product."
    ),
    lost=_dropped,
    limits=Limits("Half of the product is a safe estimate of the saving.", 0.10, 0.40),
    answer="index the input or the weights before the product",
)
