"""Tensors that the host makes on the CPU and then copies to the device."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import trace_fact
from perftui.facts.gpu.host_waits import distinct, host_copies
from perftui.trace.model import LAUNCHES, NONE, Int64, Mask, Trace

_MAKES = re.compile(
    r"aten::(full|full_like|zeros|ones|zeros_like|ones_like|arange|range|linspace|logspace|eye"
    r"|rand|randn|randint|randperm|rand_like|randn_like|normal|normal_|uniform_|bernoulli|bernoulli_"
    r"|random_|exponential_|fill_|tril|triu|tril_indices|triu_indices|scalar_tensor|lift_fresh"
    r"|one_hot|hann_window|hamming_window|multinomial|poisson)$"
)
"""Operators that make values, rather than move or view them."""

_ENQUEUES = re.compile(r"Launch|Memcpy|Memset", re.I)

_STEPS_BACK = 12
"""Operators between the one that makes a tensor and the copy."""

FARTHEST = 5_000_000
"""ns between two operators of one such chain."""

FASTEST_WRITE = 500
"""Bytes a ns above which no CPU writes memory: what operators have taken less time for, they have
not made. Old versions of PyTorch call ``aten::zeros`` for a mark, right before the copy."""

_LEVELS = 10
"""Calls within an operator that are looked at for work of the device."""


@dataclass(frozen=True, eq=False)
class CpuMade:
    """Each is a chain of operators of one thread; columns as long as ``copies``."""

    copies: Int64
    """The operator that copies the tensor to the device."""
    first: Int64
    """The operator that the chain begins with."""
    maker: Int64
    """The one that takes longest of those that make values."""
    lasting: Int64
    """ns that it takes to make and to copy the tensor; not what comes between, such as getting
    memory from the driver."""


NOTHING = CpuMade(*(np.zeros(0, dtype=np.int64) for _ in range(4)))


@trace_fact
def made_on_cpu(analysis: TraceAnalysis) -> CpuMade:
    """Copies to the device of tensors that operators have just made on the CPU.

    Of the operators directly before the copy, in its thread, none works on the device, and one or
    more make values. What is made while a batch is fetched is data.

    Raises:
        UnknownError: the trace shows no GPU.
    """
    copies, trace = host_copies(analysis), analysis.trace
    chosen = np.flatnonzero(copies.to_device & (copies.outer != NONE))
    chosen = chosen[np.argsort(copies.outer[chosen], kind="stable")]
    ordered, launch = copies.outer[chosen], copies.launch[chosen]
    outer = distinct(ordered)
    calls = _calls(trace, distinct(trace.track[outer]))
    if not len(calls):
        return NOTHING
    at = np.minimum(np.searchsorted(calls, outer), max(len(calls) - 1, 0))
    known = calls[at] == outer
    first = np.minimum(np.searchsorted(ordered, outer[known]), max(len(ordered) - 1, 0))
    return _chains(trace, calls, at[known], outer[known], launch[first], copies.size[chosen][first])


def _calls(trace: Trace, tracks: Int64) -> Int64:
    """Operators of ``tracks`` that are in no other, in order of thread and time."""
    rows = np.flatnonzero(kinds.operators(trace) & np.isin(trace.track, tracks))
    track, ends = trace.track[rows].astype(np.int64), trace.ends_of(rows)
    # Each thread begins behind all times of the one before.
    apart = track * (int(trace.ends_of(slice(None)).max()) + 1)
    reach = np.maximum.accumulate(ends + apart)
    outermost = np.ones(len(rows), dtype=bool)
    outermost[1:] = (trace.start[rows] + apart)[1:] >= reach[:-1]
    found: Int64 = rows[outermost].astype(np.int64)
    return found


def _chains(
    trace: Trace, calls: Int64, at: Int64, outer: Int64, launch: Int64, size: Int64
) -> CpuMade:
    """``launch`` is the call that begins each copy, of ``size`` bytes."""
    on_device, makes = _on_device(trace, calls), kinds.named(trace, _MAKES.match)[calls]
    fetched = kinds.input_wait(trace)
    fetching = _within(trace, calls, np.flatnonzero(fetched).astype(np.int64))
    first, maker = np.full(len(at), NONE), np.full(len(at), NONE)
    current, going = at.copy(), np.ones(len(at), dtype=bool)
    worked = np.zeros(len(at), dtype=np.int64)
    for _ in range(_STEPS_BACK):
        before = np.maximum(current - 1, 0)
        row, following = calls[before], calls[current]
        apart = trace.start[following] - trace.ends_of(row)
        going &= (current > 0) & ~on_device[before] & ~fetching[before]
        going &= (trace.track[row] == trace.track[following]) & (apart < FARTHEST)
        worked += np.where(going, trace.duration[row], 0)
        made = going & makes[before] & (size <= worked * FASTEST_WRITE)
        first = np.where(made, row, first)
        longer = (maker == NONE) | (trace.duration[row] >= trace.duration[maker])
        maker = np.where(made & longer, row, maker)
        current = np.where(going, before, current)
    # torch.tensor(values, device=...) makes it on the CPU within itself, and marks that it did.
    after = calls[np.minimum(at + 1, len(calls) - 1)]
    lifted = (
        (maker == NONE) & kinds.named(trace, "aten::lift_fresh".__eq__)[after] & (after > outer)
    )
    first, maker = np.where(lifted, outer, first), np.where(lifted, outer, maker)
    known = maker != NONE
    making = np.maximum(trace.start[outer] - trace.start[first], 0)
    copying = trace.ends_of(outer) - trace.start[launch]
    return CpuMade(
        outer[known],
        first[known].astype(np.int64),
        maker[known].astype(np.int64),
        (making + copying)[known].astype(np.int64),
    )


def _on_device(trace: Trace, calls: Int64) -> Mask:
    """Which of ``calls`` enqueue work within themselves."""
    enqueues = trace.in_category(*LAUNCHES) & kinds.named(trace, _ENQUEUES.search)
    above = np.flatnonzero(enqueues).astype(np.int64)
    marked = np.zeros(len(trace) + 1, dtype=bool)
    for _ in range(_LEVELS):
        above = distinct(trace.parent[above].astype(np.int64))
        above = above[above != NONE]
        marked[above] = True
    found: Mask = marked[calls]
    return found


def _within(trace: Trace, calls: Int64, ranges: Int64) -> Mask:
    """Which of ``calls`` begin while one of ``ranges`` lasts, in its thread."""
    found = np.zeros(len(calls), dtype=bool)
    for track in distinct(trace.track[ranges]).tolist():
        mine = ranges[trace.track[ranges] == track]
        index = np.searchsorted(trace.start[mine], trace.start[calls], side="right") - 1
        inside = (index >= 0) & (trace.start[calls] < trace.ends_of(mine)[np.maximum(index, 0)])
        found |= inside & (trace.track[calls] == track)
    return found
