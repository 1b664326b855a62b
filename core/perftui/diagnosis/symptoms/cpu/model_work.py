"""Work of the model on the CPU that need not be done, or not so: attention, gradients, passes."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.steps.phases import BACKWARD, FORWARD, OPTIMIZER
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.model_passes import (
    attention,
    embedding_gradients,
    recomputed,
)
from perftui.facts.cpu.not_detached import not_detached
from perftui.facts.cpu.operators import cpu_operators, in_step, of_phases
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.settings import Parameters, settings
from perftui.facts.source.operator_lines import at, line_of, line_with, place_of
from perftui.facts.step.judged_step import JudgedStep

LARGE_TABLE = 0.5
"""Share of a model's elements that its largest tensor has, from which on updating the model is
updating that."""

FEWEST_ROWS = 1_000_000
"""Elements of a table below which a dense gradient is small beside the rest of a step."""

_TABLES = frozenset({"Embedding", "EmbeddingBag"})


def _attention(facts: Facts) -> Lost | None:
    found, judged = cpu_operators(facts)
    work = attention(facts)
    if not work.calls:
        return None
    time = in_step(found, judged, work.by_phase)
    line = line_of(facts, FORWARD, r"softmax|\bbmm\b|\bmatmul\b|einsum|masked_fill| @ |baddbmm")
    mean = judged.of.mean
    return Lost(
        time.ns // 2,
        judged.of,
        "Attention written out as two matrix products with a softmax in between takes "
        f"{fmt.part_of_step(time.ns, mean)}{at(line)}.",
        (
            Figure.share("attention", time.ns / mean, ATTENTION.limits.warning),
            Figure("operators of attention in forward", work.calls, "count"),
            *_of_step(judged),
        ),
        place=place_of(facts, line, "aten::softmax"),
        parts=time.parts,
        share=time.ns / mean,
    )


def _recompute(facts: Facts) -> Lost | None:
    found, judged = cpu_operators(facts)
    work = recomputed(facts)
    if not work.calls:
        return None
    time = in_step(found, judged, work.by_phase)
    line = line_of(facts, FORWARD, r"checkpoint", only=True) or line_of(facts, BACKWARD)
    mean = judged.of.mean
    return Lost(
        time.ns,
        judged.of,
        "Activation checkpointing recomputes the forward pass during backward, for "
        f"{fmt.part_of_step(time.ns, mean)}{at(line)}.",
        (
            Figure.share("forward within backward", time.ns / mean, RECOMPUTE.limits.warning),
            *(Figure(name, judged.part(name), "ns") for name in (FORWARD, BACKWARD)),
            *_of_step(judged),
        ),
        place=place_of(facts, line),
        parts=time.parts,
        unproven="whether memory would be short without it",
    )


def _unused(facts: Facts) -> Lost | None:
    found, judged = cpu_operators(facts)
    rows = _parameters(facts)
    if any(one.unused is None for one in rows):
        raise UnknownError("which parameters are in an optimizer was not recorded")
    tensors = sum(one.unused or 0 for one in rows)
    with_gradient = sum(one.trained for one in rows)
    if not tensors:
        return _thrown_away(facts)
    elements = sum(one.unused_elements or 0 for one in rows)
    back = in_step(found, judged, of_phases(found, BACKWARD))
    # Of each layer's backward pass half is for its weights; what lies before it comes on top.
    cost = round(back.ns * elements / max(sum(one.elements for one in rows), 1) / 2)
    line = line_of(facts, BACKWARD)
    mean = judged.of.mean
    return Lost(
        cost,
        judged.of,
        f"Gradients of {tensors} of {with_gradient} parameters are computed but never used, "
        f"because no optimizer holds them: at least {fmt.part_of_step(cost, mean)}{at(line)}.",
        (
            Figure("parameters in no optimizer", tensors, "count"),
            Figure("backward", back.ns, "ns"),
            *_of_step(judged),
        ),
        place=place_of(facts, line),
        parts=back.parts,
    )


def _thrown_away(facts: Facts) -> Lost | None:
    """Gradients of parameters that another optimizer holds than the one that steps next."""
    found, judged = cpu_operators(facts)
    known = settings(facts)
    held = [one.parameters or 0 for one in (known.optimizers or () if known else ())]
    beyond = not_detached.or_none(facts) if len(held) > 1 else None
    if beyond is None or not beyond.work.calls or beyond.parameters != sum(held):
        return None
    time = in_step(found, judged, beyond.work.by_phase)
    # Where the same samples serve both, the first of the passes has to keep their graph.
    line = line_of(facts, BACKWARD, "retain_graph")
    return Lost(
        time.ns,
        judged.of,
        "Backward continues into a model that another optimizer trains, and those gradients are "
        f"thrown away: {fmt.part_of_step(time.ns, judged.of.mean)}{at(line)}; detach() its output.",
        (
            Figure.share("thrown away", time.ns / judged.of.mean, UNUSED.limits.warning),
            Figure("nodes of that model in a step", beyond.work.calls, "count"),
            *_of_step(judged),
        ),
        place=place_of(facts, line),
        parts=time.parts,
        fixes=(),
    )


def _dense(facts: Facts) -> Lost | None:
    found, judged = cpu_operators(facts)
    work = embedding_gradients(facts)
    if not work.calls:
        return None
    rows = _parameters(facts)
    largest = max((one.largest or 0 for one in rows), default=0)
    share = largest / max(sum(one.elements for one in rows), 1)
    if largest < FEWEST_ROWS or share < LARGE_TABLE:
        return None
    gradient = in_step(found, judged, work.by_phase)
    update = in_step(found, judged, of_phases(found, OPTIMIZER))
    cost = gradient.ns + round(share * update.ns)
    line = line_with(facts, _TABLES) or line_of(facts, OPTIMIZER)
    place = place_of(facts, line, "aten::embedding_dense_backward")
    mean = judged.of.mean
    return Lost(
        cost,
        judged.of,
        f"An embedding table of {largest / 1e6:.1f} million numbers{at(line)} gets a dense "
        f"gradient, and the optimizer updates every row: {fmt.part_of_step(cost, mean)}.",
        (
            Figure("dense gradient of embeddings", gradient.ns, "ns"),
            Figure("optimizer", update.ns, "ns"),
            Figure.share("of all elements in one tensor", share, LARGE_TABLE),
            *_of_step(judged),
        ),
        place=place,
        parts=(*gradient.parts, *update.parts),
    )


def _parameters(facts: Facts) -> tuple[Parameters, ...]:
    known = settings(facts) if facts.run else None
    if known is None or known.parameters is None:
        raise UnknownError("the parameters were not recorded")
    return known.parameters


def _of_step(judged: JudgedStep) -> tuple[Figure, ...]:
    return (
        Figure("mean step", judged.of.mean, "ns"),
        Figure("steady steps", judged.of.count, "count"),
    )


ATTENTION = Rule(
    id="unfused-attention",
    when="attention is computed with separate matrix products and a softmax",
    explanation=(
        "Several operators write the scores of all pairs to memory and read them back. "
        "torch.nn.functional.scaled_dot_product_attention does it in one operator, on the CPU as "
        "well as the GPU; with is_causal=True it needs no mask. The cost is estimated as half of "
        "the time."
    ),
    lost=_attention,
    limits=Limits(0.10, 0.40, "Fusing saves about half of the time."),
    fixes=("attention-fused",),
    answer="scaled_dot_product_attention",
)

RECOMPUTE = Rule(
    id="backward-recompute",
    when="backward recomputes the forward pass (activation checkpointing)",
    explanation=(
        "torch.utils.checkpoint drops activations and recomputes them in the backward pass. That "
        "saves memory. If memory is not short, the time is wasted: checkpoint fewer blocks, or "
        "none."
    ),
    lost=_recompute,
    limits=Limits(
        0.10, 0.30, "gpuprof and TraceML check it once backward takes 2.5 times as long as forward."
    ),
    fixes=("recompute-off",),
    answer="checkpoint fewer blocks if memory allows",
)

UNUSED = Rule(
    id="unused-gradients",
    when="gradients are computed for parameters that no optimizer holds",
    explanation=(
        "The backward pass runs through layers that are not trained. Call requires_grad_(False) "
        "on them to skip their gradients; if they come before every trained layer, run them under "
        "torch.no_grad() so that backward stops before them. The cost is a lower bound of the "
        "saving: half of their share of backward. If models take turns, as in a GAN, detach the "
        "output of the one that is not being trained, or backward continues into it."
    ),
    lost=_unused,
    limits=Limits(0.05, 0.20, "Certainly avoidable, hence a low limit."),
    fixes=("requires-grad-off",),
    answer="requires_grad_(False), no_grad, detach()",
)

DENSE = Rule(
    id="dense-gradients",
    when="a large embedding table gets dense gradients",
    explanation=(
        "A batch uses few rows of the table, yet the gradient is a tensor as large as the table, "
        "mostly zeros, and the optimizer updates every row. nn.Embedding(..., sparse=True) with "
        "SGD, Adagrad or SparseAdam updates only the rows used. Adam's averages of the other rows "
        "then do not decay, which changes the training slightly."
    ),
    lost=_dense,
    limits=Limits(0.10, 0.30, "The same limit as for the optimizer."),
    answer="sparse=True, SparseAdam",
)
