"""Kernels that read what the one before them wrote, and could be one with it.

Between two matrix products of a stream everything that is bound by memory (elementwise work,
normalisation, reductions) makes a chain: each of its kernels moves whole tensors through memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import sums
from perftui.analysis.kernels.category import MEMORY_BOUND, Category
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.kernel.step_kernels import StepKernels, step_kernels
from perftui.facts.step.steady import Mask
from perftui.trace.model import Int64

_FUSED_PASSES = 3
"""Times of its longest kernel that a chain takes when fused: it reads its inputs and writes its
outputs, some of them for the backward pass. Written out GELU and layer normalisation on an H100
took 38.7 ms, fused ones 5.4 ms: the estimate is 13 ms."""


_BATCHED = frozenset({"aten::bmm", "aten::baddbmm"})
"""Operators that multiply many matrices at once."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Kernels in chains, and what fusing them would save."""

    kernels: StepKernels
    """Kernels of chains that are no part of attention."""
    saved: int
    """ns for one step."""
    attention: StepKernels
    """Kernels of chains around a softmax between two matrix products."""


@trace_fact
def kernel_chains(analysis: TraceAnalysis) -> Chains:
    """The chains of the steady steps, but for the optimizer's.

    Raises:
        UnknownError: the trace shows no kernels.
    """
    found, trace = step_kernels(analysis), analysis.trace
    if not len(found):
        raise UnknownError("the steady steps of the trace launch no kernels")
    ordered = np.lexsort((trace.start[found.rows], trace.track[found.rows]))
    found = found.where(ordered)
    member = found.are(*MEMORY_BOUND)
    chain = _chain_of(found, member)
    times = sums(chain, found.duration, int(chain[-1]) + 1)
    longest = np.zeros(len(times), dtype=np.int64)
    np.maximum.at(longest, chain, found.duration)
    in_attention = _around_softmax(found, member, chain)
    kept = np.zeros(len(times), dtype=bool)
    kept[chain[member & ~in_attention[chain]]] = True
    saved = np.maximum(times - _FUSED_PASSES * longest, 0)
    return Chains(
        found.where(member & ~in_attention[chain]),
        int(saved[kept].sum()) // found.steps,
        found.where(member & in_attention[chain]),
    )


def _chain_of(found: StepKernels, member: Mask) -> Int64:
    """Number of the chain, or of the run between two chains, that each kernel is in."""
    track = found.analysis.trace.track[found.rows]
    begins = np.ones(len(member), dtype=bool)
    begins[1:] = (
        (member[1:] != member[:-1])
        | (track[1:] != track[:-1])
        | (found.phase[1:] != found.phase[:-1])
    )
    number: Int64 = np.cumsum(begins) - 1
    return number


def _around_softmax(found: StepKernels, member: Mask, chain: Int64) -> Mask:
    """Which chains hold a softmax and lie between two batched matrix products."""
    softmax = member & found.named(lambda name: "softmax" in name.lower())
    softmax &= ~found.called_by(lambda name: "log_softmax" in name)
    products = found.are(Category.GEMM) & found.called_by(lambda name: name in _BATCHED)
    wanted = np.zeros(int(chain[-1]) + 1, dtype=bool)
    wanted[chain[softmax]] = True
    follows = np.zeros(len(wanted), dtype=bool)
    follows[chain[products]] = True
    wanted[:-1] &= follows[1:]
    wanted[1:] &= follows[:-1]
    return wanted
