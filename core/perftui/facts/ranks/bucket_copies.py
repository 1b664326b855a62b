"""What DistributedDataParallel copies between gradients and the buckets in which they travel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import subtract, union
from perftui.analysis.links import link
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.parts import COMPUTE, EXPOSED_COPIES
from perftui.facts.fact import NotApplicableError, trace_fact
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.categories import DEVICE_ACTIVITY, MEMCPY
from perftui.trace.model import NONE, Int64

COPIES_BACK = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
"""The range around one gradient's copy out of its bucket. The copy into the bucket divides as well,
and is needed whether or not gradients lie there."""

_LEVELS = 4
"""Operators of the copy within that range at most."""


@dataclass(frozen=True)
class BucketCopies:
    """Means over the steady steps."""

    per_step: float
    """Gradients that are copied back."""
    time: int
    """ns in which the device does nothing else, or without one the host copies."""
    part: str
    """The part of the step in which most of that lies."""


@trace_fact
def bucket_copies(analysis: TraceAnalysis) -> BucketCopies:
    """The copies out of the buckets.

    Raises:
        NotApplicableError: there are none: nothing is wrapped, or gradients lie in the buckets.
    """
    trace, steps = analysis.trace, trace_steps(analysis)
    if COPIES_BACK not in trace.names or steps is None:
        raise NotApplicableError
    ranges = kinds.named(trace, COPIES_BACK.__eq__)
    count = max(steps.steps, 1)
    if not steps.has_gpu:
        rows = np.flatnonzero(ranges & steps.inside)
        whole = union(trace.start[rows], trace.ends_of(rows)).total
        return BucketCopies(len(rows) / count, whole // count, "backward")
    links = link(trace)
    found = np.zeros(len(links.activity), dtype=bool)
    above: Int64 = links.operator.astype(np.int64)
    for _ in range(_LEVELS):
        found |= ranges[above] & (above != NONE)
        above = np.where(above == NONE, NONE, trace.parent[above]).astype(np.int64)
    mine = np.zeros(len(trace), dtype=bool)
    mine[links.activity[found]] = True
    mine &= steps.on_device & steps.inside
    others = trace.in_category(*DEVICE_ACTIVITY) & steps.on_device & ~mine
    copying = union(trace.start[mine], trace.ends_of(mine))
    alone = subtract(copying, union(trace.start[others], trace.ends_of(others)))
    by_engine = int(trace.duration[mine & trace.in_category(MEMCPY)].sum())
    part = EXPOSED_COPIES if 2 * by_engine >= int(trace.duration[mine].sum()) else COMPUTE
    return BucketCopies(int(mine.sum()) / count, alone.total // count, part)
