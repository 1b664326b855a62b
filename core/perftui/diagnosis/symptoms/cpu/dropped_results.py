"""``dropped-results``: a product is computed whole, and a part of its result is used."""

from __future__ import annotations

import re

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD, OPTIMIZER, OTHER
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.operators import (
    PHASES,
    Operators,
    Work,
    cpu_operators,
    in_step,
    operators,
    work_of,
)
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.source.operator_lines import at, line_of, place_of
from perftui.facts.step.steady import Mask
from perftui.trace.model import Int64

_PRODUCT = re.compile(r"aten::(linear|matmul|mm|addmm|bmm|baddbmm|einsum)$")
_PIECE = re.compile(r"aten::(select|gather|index|index_select|take_along_dim)$")
_TAKES = re.compile(r"aten::(select|slice|gather|index|index_select|take_along_dim|unbind|split)$")
_VIEW = re.compile(r"aten::(view|reshape|transpose|permute|t|squeeze|unsqueeze|flatten|unflatten)$")
_PRODUCT_NODE = re.compile(r".*: (Mm|Addmm|Bmm|Baddbmm)Backward\d*$")
_PIECE_NODE = re.compile(r".*: (Select|Gather|Index|IndexSelect)Backward\d*$")

LEAST_NS = 500_000
"""A product that takes less is small whatever is used of it."""

NEAR = 6
"""Nodes from that of a piece to that of its product: sums of biases and views lie between."""


@trace_fact
def dropped_results(analysis: TraceAnalysis) -> Work:
    """Products of the model whose result is used in one piece only (``logits[:, -1]``, a gather),
    with what the backward pass does for both. Where several pieces are taken, as of the projection
    to queries, keys and values, all of it may be used."""
    found = operators(analysis)
    start = found.trace.start[found.rows[found.top]]
    top = found.top[np.argsort(start, kind="stable")]
    mine = np.zeros(len(found.rows), dtype=bool)
    dropped = _products(found, top)
    mine[dropped] = True
    nodes = _nodes(found, top, len(dropped))
    mine[nodes] = True
    calls = np.zeros_like(mine)
    calls[dropped] = True
    return work_of(found, found.within(mine), calls)


def _products(found: Operators, top: Int64) -> Int64:
    """Positions of such products."""
    called = top[~found.in_phase(BACKWARD, OPTIMIZER)[top]]
    called = called[~found.named(_VIEW.match)[called]]
    product = found.named(_PRODUCT.match)[called] & (found.duration[called] >= LEAST_NS)
    piece, takes = (found.named(one.match)[called] for one in (_PIECE, _TAKES))
    is_only = ~found.named("aten::select".__eq__)[called][1:-1] | ~takes[2:]
    at = np.flatnonzero(product[:-2] & piece[1:-1] & is_only)
    chosen: Int64 = called[at]
    return chosen


def _nodes(found: Operators, top: Int64, count: int) -> Int64:
    """Positions of the nodes of so many pieces and their products, the longest that follow each
    other so."""
    nodes = top[found.in_phase(BACKWARD)[top]]
    piece, product = (found.named(one.match)[nodes] for one in (_PIECE_NODE, _PRODUCT_NODE))
    at = np.flatnonzero(piece)
    following = _next(product, at)
    near = following - at <= NEAR
    pairs = np.stack([nodes[at[near]], nodes[np.minimum(following[near], len(nodes) - 1)]], axis=1)
    longest = np.argsort(-found.duration[pairs].sum(axis=1), kind="stable")[:count]
    chosen: Int64 = np.unique(pairs[longest])
    return chosen


def _next(mask: Mask, at: Int64) -> Int64:
    """The first place after each of ``at`` where ``mask`` holds; far away where it never does."""
    places = np.append(np.flatnonzero(mask), len(mask) + NEAR + 1)
    found: Int64 = places[np.searchsorted(places, at, side="right")]
    return found


_PRODUCT_TEXT = r"linear|matmul|einsum|\bmm\(|bmm\(| @ |head|proj|logits|score|output|decode"


def _dropped(facts: Facts) -> Lost | None:
    found, judged = cpu_operators(facts)
    work = dropped_results(facts)
    if not work.calls:
        return None
    time, mean = in_step(found, judged, work.by_phase), judged.of.mean
    called = {phase: int(work.by_phase[PHASES.index(phase)]) for phase in (FORWARD, OTHER)}
    line = line_of(facts, max(called, key=lambda phase: called[phase]), _PRODUCT_TEXT)
    return Lost(
        # How large the piece is does not show.
        time.ns // 2,
        judged.of,
        f"A matrix product{at(line)} is computed in full, but only part of its result is used: "
        f"{fmt.part_of_step(time.ns, mean)}, backward pass included.",
        (
            Figure.share("the product", time.ns / mean, DROPPED.limits.warning),
            Figure("such products in a step", work.calls, "count"),
            Figure("mean step", mean, "ns"),
            Figure("steady steps", judged.of.count, "count"),
        ),
        place=place_of(facts, line, "aten::linear"),
        parts=time.parts,
        share=time.ns / mean,
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
    limits=Limits(0.10, 0.40, "Half of the product is a safe estimate of the saving."),
    answer="index the input or the weights before the product",
)
