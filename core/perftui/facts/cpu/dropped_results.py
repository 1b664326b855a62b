"""Products of which only a part is used: right behind them a piece of the result is taken."""

from __future__ import annotations

import re

import numpy as np

from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.phases import BACKWARD, OPTIMIZER
from perftui.facts.cpu.operators import Operators, Work, operators, work_of
from perftui.facts.fact import trace_fact
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
