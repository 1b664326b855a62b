"""The buckets in which DistributedDataParallel reduces gradients: copies, and one for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.intervals import subtract, union
from perftui.analysis.links import link
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.ranks.parallelism import wrapper
from perftui.facts.fact import Facts, NotApplicableError, trace_fact
from perftui.facts.kernel.step_kernels import step_kernels
from perftui.facts.ranks.collective_calls import CollectiveCalls, collective_calls
from perftui.facts.ranks.collective_sizes import ALL_REDUCE
from perftui.facts.source.operator_lines import place_in_part
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.model import DEVICE_ACTIVITY, MEMCPY, NONE, Int64

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
    """What DistributedDataParallel copies from its buckets to the gradients.

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


BUCKET = 25 << 20
"""Bytes that DDP collects for one all-reduce by default (bucket_cap_mb=25)."""

ALL = 0.9
"""Share of the bytes of a step in one bucket, from which on the others do not matter."""

_DDP = "DistributedDataParallel"


def _copies(facts: Facts) -> Lost | None:
    copies = bucket_copies(facts)
    known = wrapper(facts, _DDP)
    if known is not None and known.arguments.get("gradient_as_bucket_view") is True:
        return None
    judged = judged_step(facts)
    step, cost = judged.of, min(copies.time, judged.part(copies.part))
    return Lost(
        cost,
        step,
        f"{_DDP} copies each of {copies.per_step:.0f} gradients out of the bucket in which it was "
        f"reduced: {fmt.part_of_step(cost, step.mean)}.",
        (
            Figure.share("copying them", cost / step.mean, BUCKET_COPIES.limits.warning),
            Figure("gradients copied a step", round(copies.per_step, 1)),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place=place_in_part(facts, BACKWARD),
        parts=(copies.part,),
    )


def _single(facts: Facts) -> Lost | None:
    """One bucket is reduced when the last gradient is there, with nothing left to compute. What is
    won by smaller ones is all but the last of them, as far as backward lasts meanwhile."""
    calls = collective_calls(facts)
    chosen = calls.are(ALL_REDUCE) & ~calls.of_norm & (calls.size > 0)
    if not chosen.any() or not _wraps(facts) or _has_usual_buckets(facts):
        return None
    largest = int(calls.size[chosen].max())
    whole = int(calls.size[chosen].sum()) / calls.steps
    alike = chosen & (calls.size == largest)
    if largest < 2 * BUCKET or largest < ALL * whole or int(alike.sum()) > calls.steps:
        return None
    judged, least = judged_step(facts), int(calls.duration[alike].min())
    exposed = min(calls.exposed(alike), judged.part(EXPOSED_COMMUNICATION), least)
    cost = min(round(exposed * (1 - BUCKET / largest)), _backward(facts, calls))
    step = judged.of
    return Lost(
        cost,
        step,
        f"All gradients, {fmt.size(largest)}, are reduced at once after backward: smaller buckets "
        f"would hide {fmt.part_of_step(cost, step.mean)} behind it.",
        (
            Figure.share("could be hidden", cost / step.mean, SINGLE_BUCKET.limits.warning),
            Figure("bytes of the bucket", largest, "B", 2 * BUCKET),
            Figure("shortest of its all-reduces", least, "ns"),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place=place_in_part(facts, EXPOSED_COMMUNICATION),
        parts=(EXPOSED_COMMUNICATION,),
    )


def _wraps(facts: Facts) -> bool:
    """Whether DistributedDataParallel reduces the gradients, by the run or by marks of a trace."""
    if wrapper(facts, _DDP) is not None:
        return True
    analysis: TraceAnalysis | None = facts.analysis
    names = analysis.trace.names if analysis else ()
    return COPIES_BACK in names or any(name.startswith(_DDP) for name in names)


def _has_usual_buckets(facts: Facts) -> bool:
    """Whether the run asked for no larger ones: one parameter with most of the bytes, such as an
    embedding, has a bucket of its own then."""
    known = wrapper(facts, _DDP)
    cap = known.arguments.get("bucket_bytes_cap") if known else None
    return isinstance(cap, int) and cap <= BUCKET


def _backward(facts: Facts, calls: CollectiveCalls) -> int:
    """What the GPU computes of a backward pass, behind which reducing could hide, ns."""
    kernels = step_kernels(facts)
    computing = ~np.isin(kernels.rows, calls.rows)
    return kernels.where(kernels.in_phase(BACKWARD) & computing).time


BUCKET_COPIES = Rule(
    id="bucket-copies",
    when="DistributedDataParallel copies gradients out of its reduction buckets",
    explanation=(
        "Gradients are reduced in buckets, and by default each is copied back out of its bucket. "
        "With gradient_as_bucket_view=True a gradient is a view of its bucket: that saves the "
        "copy and the memory of one set of gradients."
    ),
    lost=_copies,
    limits=Limits(0.05, 0.20, "TraceLens reports exposed copies from 5 %.", info=0.02),
    fixes=("ddp-bucket-view",),
    answer="DistributedDataParallel(..., gradient_as_bucket_view=True)",
)

SINGLE_BUCKET = Rule(
    id="single-bucket",
    when="DistributedDataParallel reduces all gradients in one bucket, after backward",
    explanation=(
        "A bucket is reduced while backward computes the gradients of the next one. A single "
        "bucket is complete only after backward, and nothing hides its reduction. Leave "
        "bucket_cap_mb at 25, or lower it. The cost is the time that would then be hidden."
    ),
    lost=_single,
    limits=Limits(
        0.05,
        0.20,
        "TraceLens reports exposed communication from 5 %; reported only above 50 MiB, twice the "
        "size of a bucket.",
        info=0.02,
    ),
    fixes=("ddp-buckets",),
    answer="remove bucket_cap_mb, or lower it to 25",
)
