"""Passes of the model on the CPU, by the order of its operators: attention written out,
forward work within backward, forward passes that no backward follows."""

from __future__ import annotations

import re

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import FORWARD
from perftui.facts.cpu.operators import Work, operators, work_of
from perftui.facts.fact import trace_fact
from perftui.trace.model import Int64

WEIGHTED = re.compile(r"aten::(addmm|mm|bmm|convolution|mkldnn_rnn_layer|native_layer_norm)$")


WEIGHTED_NODE = re.compile(r"(Addmm|Mm|Bmm|Convolution|MkldnnRnnLayer|NativeLayerNorm)Backward\d*$")


NODE = "autograd::engine::evaluate_function: "
"""Before the name of a node of the backward pass, in that of the operator around it."""


KEEPS_GRADIENT = "torch::autograd::AccumulateGrad"
"""The node that keeps the gradient of a parameter."""


TWICE = 1.7
"""Times as many forward as backward operators, from which on a pass has no backward."""


MOST_PASSES = 3
"""Forward passes for each with a backward pass, up to which one is a repetition: more of them play,
generate or look ahead, on other inputs."""


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
    top = found.top_by_start
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
