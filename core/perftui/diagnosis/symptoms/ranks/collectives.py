"""Collectives that take longer than needed, and ways of distributing a model that cause it."""

from __future__ import annotations

import math

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.intervals import mask_of, subtract
from perftui.analysis.kernels.limits import link_of
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.calls import link
from perftui.analysis.steps import BACKWARD, COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, cost_of, rule, without_cost
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, trace_fact
from perftui.facts.gpu.cards import trace_card
from perftui.facts.gpu.kernels import step_kernels
from perftui.facts.ranks.collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    CollectiveCalls,
    backward_passes,
    collective_calls,
)
from perftui.facts.ranks.straggler import slow_rank
from perftui.facts.settings import Wrapper, settings
from perftui.facts.source.operator_lines import place_in_part
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.model import DEVICE_ACTIVITY, MEMCPY, Mask


def wrapper(facts: Facts, name: str) -> Wrapper | None:
    """The first wrapper of that class; None if not recorded."""
    return next((item for item in settings(facts).wrappers or () if item.name == name), None)


@rule(
    when="gradients are reduced for every micro-batch, not once for each optimizer step",
    limits=Limits(),
    fixes=("ddp-no-sync",),
    answer="run all micro-batches but the last under model.no_sync()",
)
def reduce_each_micro_batch(facts: Facts) -> Lost | None:
    """With gradient accumulation, only the last backward pass before the optimizer step has to
    reduce gradients."""
    judged = judged_step(facts)
    exposed = judged.part(EXPOSED_COMMUNICATION)
    if not exposed:
        return None
    passes, reducing = backward_passes(facts)
    if passes < 1.5 or reducing < 1.5:
        return None
    cost = round(exposed * (1 - 1 / reducing))
    step = judged.of
    return Lost(
        cost,
        step,
        f"Gradients are reduced in {reducing:.0f} backward passes of each step, where "
        f"one would do: {step.part_of(cost)} in collectives.",
        (
            Figure("backward passes a step", round(passes, 1)),
            Figure("of them with collectives", round(reducing, 1)),
            Figure.share("lost to them", cost / step.mean, reduce_each_micro_batch.limits.warning),
        ),
        place=place_in_part(facts, EXPOSED_COMMUNICATION),
        parts=(EXPOSED_COMMUNICATION,),
    )


@rule(
    when="DataParallel drives several GPUs from one process",
    limits=Limits("The TensorBoard plugin always advises against it.", 0.5, 1.0, of="of its GPUs"),
    answer=(
        "use DistributedDataParallel with one process per GPU, which is faster even on one machine"
    ),
)
def wrong_parallelism(facts: Facts) -> Lost | None:
    """DataParallel copies the model to every GPU in each step, gathers the results, and launches
    everything from one Python process."""
    parallel = wrapper(facts, "DataParallel")
    devices = str(parallel.arguments.get("device_ids")) if parallel else ""
    count = devices.count(",") + 1 if devices.startswith("[") and devices != "[]" else 0
    if count < 2:
        return None
    return without_cost(
        f"DataParallel drives {count} GPUs from one process: it copies the model to each GPU in "
        "every step, and one Python process launches all kernels.",
        (Figure("GPUs of one process", count, "count"),),
        share=1.0,
    )


@rule(
    when="DistributedDataParallel looks for unused parameters in each step",
    limits=Limits("Published measurements: 5 to 10 % of the step.", 0.10, 0.20, info=0.05),
    fixes=("ddp-all-used",),
    answer="remove find_unused_parameters, or pass static_graph=True if the graph never changes",
)
def unused_parameters_search(facts: Facts) -> Lost | None:
    """find_unused_parameters=True walks the graph after every forward pass and delays the reduction
    of gradients."""
    parallel = wrapper(facts, "DistributedDataParallel")
    if parallel is None or parallel.arguments.get("find_unused_parameters") is not True:
        return None
    return without_cost(
        "DistributedDataParallel looks for unused parameters after every forward pass "
        "(find_unused_parameters=True).",
        (Figure("find_unused_parameters", "True"),),
        share=0.05,
    )


COPIES_BACK = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
"""The range around one gradient's copy out of its bucket. The copy into the bucket also divides,
and is needed even if gradients are views of it."""

_LEVELS = 4
"""Most operators of the copy within that range."""


@trace_fact
def bucket_copies(analysis: TraceAnalysis) -> tuple[float, int, str]:
    """Copies of DistributedDataParallel from its buckets to the gradients, in a mean steady step:
    their number, ns in which the device does nothing else (without one, ns of the host), and the
    part of the step with most of that time. Not applicable if there are none: nothing is wrapped,
    or gradients are bucket views."""
    trace, steps = analysis.trace, trace_steps(analysis)
    if COPIES_BACK not in trace.names or steps is None:
        raise NotApplicableError
    ranges = kinds.named(trace, COPIES_BACK.__eq__)
    count = max(steps.steps, 1)
    if not steps.has_gpu:
        rows = np.flatnonzero(ranges & steps.inside)
        return len(rows) / count, kinds.busy(trace, rows).total // count, "backward"
    links = link(trace)
    copied = kinds.under(trace, links.operator, ranges, _LEVELS)
    mine = mask_of(len(trace), links.activity[copied]) & steps.on_device & steps.inside
    others = trace.in_category(*DEVICE_ACTIVITY) & steps.on_device & ~mine
    alone = subtract(kinds.busy(trace, mine), kinds.busy(trace, others))
    by_engine = int(trace.duration[mine & trace.in_category(MEMCPY)].sum())
    part = EXPOSED_COPIES if 2 * by_engine >= int(trace.duration[mine].sum()) else COMPUTE
    return int(mine.sum()) / count, alone.total // count, part


BUCKET = 25 << 20
"""Bytes that DDP collects for one all-reduce by default (bucket_cap_mb=25)."""

ALL = 0.9
"""Share of a step's bytes in one bucket from which the others do not matter."""

_DDP = "DistributedDataParallel"


@rule(
    when="DistributedDataParallel copies gradients out of its reduction buckets",
    limits=Limits(info=0.02),
    fixes=("ddp-bucket-view",),
    answer="pass gradient_as_bucket_view=True to DistributedDataParallel",
)
def bucket_copies_rule(facts: Facts) -> Lost | None:
    """By default each gradient is copied back out of the bucket in which it was reduced. As a view
    of its bucket, it needs neither the copy nor the memory."""
    copied, time, part = bucket_copies(facts)
    ddp = wrapper(facts, _DDP)
    if ddp is not None and ddp.arguments.get("gradient_as_bucket_view") is True:
        return None
    judged = judged_step(facts)
    step, cost = judged.of, min(time, judged.part(part))
    return Lost(
        cost,
        step,
        f"{_DDP} copies each of {copied:.0f} gradients out of the bucket in which it was "
        f"reduced: {step.part_of(cost)}.",
        (Figure("gradients copied a step", round(copied, 1)),),
        label="copying them",
        place=place_in_part(facts, BACKWARD),
        parts=(part,),
    )


@rule(
    when="DistributedDataParallel reduces all gradients in one bucket, after backward",
    limits=Limits("Reported above 50 MiB.", info=0.02),
    answer="remove bucket_cap_mb, or lower it to 25",
)
def single_bucket(facts: Facts) -> Lost | None:
    """A bucket is reduced while backward computes the next one, so nothing hides a single one. The
    cost is the time that smaller buckets would hide."""
    # A single bucket is reduced once the last gradient is there, with nothing left to compute.
    # Smaller buckets would hide all but the last of them, while backward runs.
    calls = collective_calls(facts)
    chosen = calls.are(ALL_REDUCE) & ~calls.of_norm & (calls.size > 0)
    ddp = wrapper(facts, _DDP)
    cap = ddp.arguments.get("bucket_bytes_cap") if ddp else None
    # If the run did not request larger buckets, a parameter with most of the bytes, such as an
    # embedding, has a bucket of its own.
    is_usual = isinstance(cap, int) and cap <= BUCKET
    # By marks of a trace, where no run says what wraps the model.
    names = facts.analysis.trace.names if facts.analysis else ()
    wraps = ddp or COPIES_BACK in names or any(name.startswith(_DDP) for name in names)
    if not chosen.any() or is_usual or not wraps:
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
        f"would hide {step.part_of(cost)} behind it.",
        (
            Figure("bytes of the bucket", largest, "B", 2 * BUCKET),
            Figure("shortest of its all-reduces", least, "ns"),
        ),
        label="could be hidden",
        place=place_in_part(facts, EXPOSED_COMMUNICATION),
        parts=(EXPOSED_COMMUNICATION,),
    )


def _backward(facts: Facts, calls: CollectiveCalls) -> int:
    """Computing of the GPU in a backward pass, which could hide the reduction, ns."""
    kernels = step_kernels(facts)
    computing = ~np.isin(kernels.rows, calls.rows)
    return kernels.where(kernels.in_phase(BACKWARD) & computing).time


SMALL = 1 << 20
"""Bytes below which a collective takes as long as one of a few bytes: DDP's first bucket."""

FEWEST_SMALL = 10
"""Small all-reduces per step from which their number matters."""

STORM = 20
"""Batch normalisation's collectives per step from which msprof reports them."""


@rule(
    when="each step reduces many small tensors one by one",
    limits=Limits("Reported from ten all-reduces below 1 MiB.", info=0.02),
    answer="raise bucket_cap_mb to 25 or more, or reduce one flat tensor",
)
def many_small_reductions(facts: Facts) -> Lost | None:
    """An all-reduce of less than 1 MiB takes as long as one of a few bytes. The cost is the time of
    the shortest one for each that is avoidable."""
    # Gain if the small all-reduces of a step were as few as their bytes need: each one saved counts
    # with the time of the shortest, in which no rank waits for another.
    calls = collective_calls(facts)
    chosen = calls.are(ALL_REDUCE) & ~calls.of_norm & (calls.size > 0)
    count = int(chosen.sum()) // calls.steps
    if count < FEWEST_SMALL or np.median(calls.size[chosen]) >= SMALL:
        return None
    small = chosen & (calls.size < SMALL)
    sizes, least = calls.size[small], int(calls.duration[small].min())
    fewer = math.ceil(int(sizes.sum()) / calls.steps / BUCKET)
    left_out = len(sizes) / calls.steps - fewer
    step, exposed = judged_step(facts).of, _exposed(facts, calls, small)
    cost = min(round(least * left_out), exposed)
    usual = int(np.median(sizes))
    return Lost(
        cost,
        step,
        f"Each step reduces {len(sizes) // calls.steps} tensors of {fmt.size(usual)} (median) one "
        f"by one: {step.part_of(cost)} more than in {fmt.several(fewer, 'piece')}.",
        (
            Figure("small all-reduces a step", round(len(sizes) / calls.steps, 1)),
            Figure("bytes of one (median)", usual, "B", SMALL),
            Figure("shortest of them", least, "ns"),
        ),
        label="lost to their number",
        place=place_in_part(facts, EXPOSED_COMMUNICATION),
        parts=(EXPOSED_COMMUNICATION,),
    )


@rule(
    when="synchronised batch normalisation exchanges statistics in each layer",
    limits=Limits("msprof reports more than 20 exchanges a step."),
    answer=(
        "use BatchNorm, or GroupNorm, which exchanges nothing, or give SyncBatchNorm a smaller "
        "process group"
    ),
)
def sync_batch_norm(facts: Facts) -> Lost | None:
    """SyncBatchNorm gathers mean and variance from all ranks, forward and backward, and nothing can
    hide that. From about 16 samples per GPU on, ordinary batch normalisation works as well."""
    calls = collective_calls(facts)
    count = int(calls.of_norm.sum()) / calls.steps
    if count <= STORM:
        return None
    step, cost = judged_step(facts).of, _exposed(facts, calls, calls.of_norm)
    return Lost(
        cost,
        step,
        f"Batch normalisation exchanges its statistics {count:.0f} times a step, and the GPU waits "
        f"{step.part_of(cost)} for that.",
        (Figure("their collectives a step", round(count, 1), "", STORM),),
        label="waiting for them",
        place=place_in_part(facts, EXPOSED_COMMUNICATION),
        parts=(EXPOSED_COMMUNICATION,),
        unproven=(
            "the collectives of the rank that arrives last, since waits of the others include "
            "waiting for it"
        ),
    )


def _exposed(facts: Facts, calls: CollectiveCalls, chosen: Mask) -> int:
    """ns per step in which only those calls were under way, by the trace, at most the judged
    step's."""
    return min(calls.exposed(chosen), judged_step(facts).part(EXPOSED_COMMUNICATION))


LARGE = 16 << 20
"""Bytes from which a collective comes close to the rate of its link, as in nccl-tests."""

FEWEST_LARGE = 3
"""Fewest large collectives for the fastest to be free of waits for other ranks."""

ONE_MACHINE = 8
"""Most ranks on one machine; with more, the link between machines matters."""

_TRIPS = {ALL_REDUCE: 2, ALL_GATHER: 1, REDUCE_SCATTER: 1}
"""How often, times (n - 1) / n, each byte crosses the link: the bus bandwidth of nccl-tests."""


LOW = 0.2
"""Share of the link's rate below which it is slow; nsys-ai."""

USUAL = 0.6
"""Share that large collectives usually reach; nccl-tests reach 0.7 to 0.85."""


@rule(
    when="large collectives reach a small part of the bandwidth of the link between the cards",
    limits=Limits("nsys-ai reports collectives below a fifth of the peak.", 0.10, 0.30),
    answer=(
        "look for the path with NCCL_DEBUG=INFO and nvidia-smi topo -m, and unset NCCL_P2P_DISABLE"
    ),
)
def slow_network(facts: Facts) -> Lost | None:
    """The fastest large collective, in the bus bandwidth of nccl-tests, is far below the card's
    link: data goes through host memory, another socket or a network. In virtual machines ACS or the
    IOMMU can be the reason."""
    # Gain if large collectives among the cards of one machine reached the usual rate, in time in
    # which nothing hides them and no rank waits for another: by the fastest of them.
    judged = judged_step(facts)
    step, exposed = judged.of, judged.part(EXPOSED_COMMUNICATION)
    # Between several machines no rate is known.
    several = facts.run is not None and len({rank.host for rank in facts.run.ranks}) > 1
    if exposed < slow_network.limits.warning * step.mean or several:
        raise NotApplicableError
    calls = collective_calls(facts)
    if not (calls.size > 0).any():
        raise UnknownError("the trace does not record how many bytes its collectives move")
    trips = np.array([_TRIPS.get(kind, 0) for kind in calls.kind])
    chosen = (calls.size >= LARGE) & (trips > 0) & (calls.duration > 0)
    chosen &= (calls.ranks > 1) & (calls.ranks <= ONE_MACHINE)
    if int(chosen.sum()) < FEWEST_LARGE:
        raise NotApplicableError
    card = trace_card(facts).name
    bus = link_of(card)
    if bus is None:
        raise UnknownError(
            f"the bandwidth of the link between cards of type {card} is not listed"
            if card
            else "the trace does not name the card, so its link is not known"
        )
    ranks = calls.ranks[chosen]
    crossing = calls.size[chosen] * trips[chosen] * (ranks - 1) / ranks
    # In GB/s, of the fastest call.
    reached = float((crossing / calls.duration[chosen]).max())
    share = reached / bus.rate
    if share >= LOW or slow_rank.or_none(facts) is not None:
        return None
    transfer = round(float(crossing.sum()) / reached / calls.steps)
    left = min(exposed, calls.exposed(chosen), transfer) - cost_of(single_bucket, facts)
    cost = max(round(left * (1 - share / USUAL)), 0)
    return Lost(
        cost,
        step,
        f"Large collectives of {ranks.max()} ranks come to {reached:.3g} GB/s, "
        f"{fmt.percent(share)} of what {bus.name} carries: "
        f"{step.part_of(cost)} more than usual.",
        (
            Figure.share("reached of the link", share, LOW),
            Figure("GB/s on the bus", round(reached, 1)),
            Figure(f"GB/s of {bus.name}, each way", bus.rate),
            Figure("large collectives", int(chosen.sum()), "count"),
        ),
        label="lost to the slow link",
        place=place_in_part(facts, EXPOSED_COMMUNICATION),
        parts=(EXPOSED_COMMUNICATION,),
        # A trace alone does not show whether the ranks share a machine, or one comes late.
        worst=Severity.CRITICAL if facts.run else Severity.INFO,
        unproven="the bandwidth that nccl-tests measures on this machine",
    )
