"""Many small collectives in each step: what they take is the time to begin one, over and over."""

from __future__ import annotations

import math

import numpy as np

from perftui import format as fmt
from perftui.analysis.steps import EXPOSED_COMMUNICATION
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.fact import Facts
from perftui.facts.ranks.collective_calls import CollectiveCalls, collective_calls
from perftui.facts.ranks.collective_sizes import ALL_REDUCE
from perftui.facts.source.operator_lines import place_in_part
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.steady import Mask

SMALL = 1 << 20
"""Bytes of a collective below which it takes as long as one of a few: DDP's first bucket."""

BUCKET = 25 << 20
"""Bytes that DDP collects for one all-reduce (bucket_cap_mb=25)."""

FEWEST = 10
"""Small all-reduces of a step from which on their number is the question."""

STORM = 20
"""Collectives of batch normalisation in a step beyond which msprof speaks of them."""


def _small(facts: Facts) -> Lost | None:
    """What is won where the small all-reduces of a step become as few as their bytes need: of those
    left out the time of the shortest, in which no rank waits for another."""
    calls = collective_calls(facts)
    chosen = calls.are(ALL_REDUCE) & ~calls.of_norm & (calls.size > 0)
    count = int(chosen.sum()) // calls.steps
    if count < FEWEST or np.median(calls.size[chosen]) >= SMALL:
        return None
    small = chosen & (calls.size < SMALL)
    sizes, each = calls.size[small], int(calls.duration[small].min())
    fewer = math.ceil(int(sizes.sum()) / calls.steps / BUCKET)
    left_out = len(sizes) / calls.steps - fewer
    step, exposed = judged_step(facts).of, _exposed(facts, calls, small)
    cost = min(round(each * left_out), exposed)
    usual = int(np.median(sizes))
    return Lost(
        cost,
        step,
        f"Each step reduces {len(sizes) // calls.steps} tensors of {fmt.size(usual)} (median) one "
        f"by one: {fmt.part_of_step(cost, step.mean)} more than in {fmt.several(fewer, 'piece')}.",
        (
            Figure.share("lost to their number", cost / step.mean, MANY_SMALL.limits.warning),
            Figure("small all-reduces a step", round(len(sizes) / calls.steps, 1)),
            Figure("bytes of one (median)", usual, "B", SMALL),
            Figure("shortest of them", each, "ns"),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place=place_in_part(facts, EXPOSED_COMMUNICATION),
        parts=(EXPOSED_COMMUNICATION,),
    )


def _batch_norm(facts: Facts) -> Lost | None:
    calls = collective_calls(facts)
    count = int(calls.of_norm.sum()) / calls.steps
    if count <= STORM:
        return None
    step, cost = judged_step(facts).of, _exposed(facts, calls, calls.of_norm)
    return Lost(
        cost,
        step,
        f"Batch normalisation exchanges its statistics {count:.0f} times a step, and the GPU waits "
        f"{fmt.part_of_step(cost, step.mean)} for that.",
        (
            Figure.share("waiting for them", cost / step.mean, SYNC_BATCH_NORM.limits.warning),
            Figure("their collectives a step", round(count, 1), "", STORM),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place=place_in_part(facts, EXPOSED_COMMUNICATION),
        parts=(EXPOSED_COMMUNICATION,),
        unproven=(
            "the collectives of the rank that arrives last, since waits of the others include "
            "waiting for it"
        ),
    )


def _exposed(facts: Facts, calls: CollectiveCalls, chosen: Mask) -> int:
    """Time of a step in which only those calls were under way, ns; of the trace's, and no more than
    the step that is judged has."""
    return min(calls.exposed(chosen), judged_step(facts).part(EXPOSED_COMMUNICATION))


SYNC_BATCH_NORM = Rule(
    id="sync-batch-norm",
    when="synchronised batch normalisation exchanges statistics many times in each step",
    explanation=(
        "SyncBatchNorm gathers mean and variance from all ranks in every layer, forward and "
        "backward, and nothing can hide that. With about 16 or more samples per GPU, ordinary "
        "batch normalisation works as well; group or layer normalisation exchanges nothing."
    ),
    lost=_batch_norm,
    limits=Limits(
        0.05,
        0.20,
        "msprof reports more than 20 a step; TraceLens reports exposed communication from 5 %.",
    ),
    answer="BatchNorm or GroupNorm instead of SyncBatchNorm; a smaller process group",
)

MANY_SMALL = Rule(
    id="many-small-reductions",
    when="each step reduces many small tensors with the other ranks, one by one",
    explanation=(
        "Below 1 MiB an all-reduce takes as long as one of a few bytes. Let "
        "DistributedDataParallel reduce gradients, with bucket_cap_mb at 25 or more, or copy them "
        "into one flat tensor and reduce that. The cost is the number of avoidable all-reduces "
        "times the shortest one."
    ),
    lost=_small,
    limits=Limits(
        0.05,
        0.20,
        "TraceLens reports exposed communication from 5 %; reported from ten all-reduces below 1 "
        "MiB, the size of DistributedDataParallel's first bucket.",
        info=0.02,
    ),
    answer="larger buckets (bucket_cap_mb), one all-reduce of a flat tensor",
)
