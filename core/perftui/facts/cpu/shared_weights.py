"""Part of the forward pass that a step runs twice with the same weights, gradients and all."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.phases import BACKWARD, OPTIMIZER
from perftui.facts.cpu.model_passes import KEEPS_GRADIENT, NODE, WEIGHTED, WEIGHTED_NODE
from perftui.facts.cpu.operators import Work, operators, work_of
from perftui.facts.fact import trace_fact
from perftui.facts.step.steady import Mask
from perftui.trace.model import NONE, Int64

MOST_OPERATORS = 3000
"""Outermost operators of a step's forward pass that are compared, each with each: 50 ms."""

FEWEST_LAYERS = 2
"""Operators with weights in a repeated part: gradients are kept between their nodes, or are not."""

_RANDOM = re.compile(
    r"aten::\w*(native_dropout|bernoulli|rand|normal_$|uniform_$|rrelu|multinomial)"
)
"""What makes two passes of one input differ: dropout that drops nothing calls none of it."""


@trace_fact
def used_again(analysis: TraceAnalysis) -> Work:
    """The second of two equal sequences of operators before backward, with its own backward pass,
    where both use the same weights: the gradient of a weight that is used twice is kept once, when
    the pass has come back to its first use, so that none is kept on the way through the second.
    Nothing if the sequence draws random numbers, since two dropout masks are not a repetition."""
    found = operators(analysis)
    mine = np.zeros(len(found.rows), dtype=bool)
    random = found.named(_RANDOM.match)
    weighted = found.named(WEIGHTED.match)
    nodes, sums = found.named(WEIGHTED_NODE.match), found.named((NODE + KEEPS_GRADIENT).__eq__)
    start = found.trace.start[found.rows]
    back, update = found.in_phase(BACKWARD), found.in_phase(OPTIMIZER)
    for one in found.steps.each:
        inside = (start >= one.step.start) & (start < one.step.end)
        gone = _by_start(inside & back & nodes, start)
        if not len(gone):
            continue
        forward = inside & ~back & ~update & (start < start[gone[0]])
        layers = _by_start(forward & weighted, start)
        top = _by_start(forward & (found.caller == NONE), start)
        if len(layers) > len(gone):
            # What ran before has no backward pass, as where accuracy is measured without gradients.
            layers = layers[-len(gone) :]
            top = top[np.searchsorted(start[top], start[layers[0]], side="right") - 1 :]
        if len(gone) != len(layers) or len(top) > MOST_OPERATORS:
            continue
        ends = found.trace.ends_of(found.rows)
        twice = _twice(found.name[top])
        if twice is None:
            continue
        first, second, length = twice
        spans = [(int(start[top[at]]), int(ends[top[at + length - 1]])) for at in (first, second)]
        # Backward comes to the nodes in the opposite order.
        used = [_nodes(layers, gone, start, span) for span in spans]
        if len(used[1]) < FEWEST_LAYERS or len(used[0]) != len(used[1]):
            continue
        kept = [
            np.count_nonzero(sums & (start >= start[each[0]]) & (start < ends[each[-1]]))
            for each in used
        ]
        chosen = forward & (start >= spans[1][0]) & (start < spans[1][1])
        if (random & chosen).any() or kept[1] or kept[0] < len(used[0]) - 1:
            continue
        returned = inside & back & (start >= start[used[1][0]]) & (start < ends[used[1][-1]])
        mine |= chosen | returned
    return work_of(found, mine, weighted)


def _by_start(chosen: Mask, start: Int64) -> Int64:
    at = np.flatnonzero(chosen)
    return at[np.argsort(start[at], kind="stable")]


def _nodes(layers: Int64, gone: Int64, start: Int64, span: tuple[int, int]) -> Int64:
    """Nodes of the layers that begin in ``span``, in the order in which backward runs them."""
    first, last = np.searchsorted(start[layers], span)
    return gone[len(gone) - int(last) : len(gone) - int(first)]


def _twice(names: npt.NDArray[np.int32]) -> tuple[int, int, int] | None:
    """The longest sequence that occurs twice without overlap: where it begins first, where
    again, and how long it is."""
    best: tuple[int, int, int] | None = None
    for lag in range(1, len(names)):
        if best is not None and min(lag, len(names) - lag) <= best[2]:
            continue
        unlike = np.flatnonzero(names[:-lag] != names[lag:])
        edges = np.concatenate([[-1], unlike, [len(names) - lag]])
        runs = np.diff(edges) - 1
        at = int(np.argmax(runs))
        length = min(int(runs[at]), lag)
        if length and (best is None or length > best[2]):
            begin = int(edges[at]) + 1
            best = (begin, begin + lag, length)
    return best
