"""Workers that could keep up, and yet the training waits: by how their batches come."""

from __future__ import annotations

from dataclasses import replace

from perftui import format as fmt
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.data_loader.data_waiting import (
    AT_EPOCHS,
    SATURATED,
    WAIT,
    busy,
    lost_to_workers,
    waits_for_workers,
    workers,
)
from perftui.diagnosis.symptoms.data_loader.wait_limits import WAIT_LIMITS
from perftui.facts.cpu.machine import busy_host
from perftui.facts.data_loader.batch_place import loader_place
from perftui.facts.data_loader.input_wait import InputWait
from perftui.facts.data_loader.loader_use import unevenness, worker_use
from perftui.facts.data_loader.loader_work import wait_cpu
from perftui.facts.data_loader.wait_pattern import wait_pattern
from perftui.facts.data_loader.without_workers import better_without_workers
from perftui.facts.fact import Facts

UNPACKING = 0.5
"""Share of the wait in which the training thread computes, from which on it is its own work."""

LEAST_MAKING = 0.5
"""Share of the wait in which some worker makes batches, where workers are waited for."""

OF_TIME = 3.0
"""A moment of making falls into a batch so many times the mean one: few hold most of the time."""

SLOW_WORKER = 2.0
"""A slow worker takes so many times as long for a batch as the others; gpuprof has 2.5."""


def _handover(facts: Facts) -> Lost | None:
    wait = waits_for_workers(facts)
    if wait is None:
        return None
    unpacks, use, count = wait_cpu(facts), worker_use.or_none(facts), workers(facts)
    figures = [] if unpacks is None else [Figure.share("CPU use while waiting", unpacks)]
    packs = use is not None and not use.has_threads and use.others >= use.cpu + use.blocked
    if packs and use is not None:
        figures.append(Figure("cores used to hand over", round(use.others, 2)))
    if unpacks is not None and unpacks >= UNPACKING:
        because = (
            f"for {fmt.percent(unpacks)} of that it unpacks what {fmt.several(count, 'worker')} "
            f"hand{'s' if count == 1 else ''} over"
        )
    elif packs:
        which = "a worker" if count > 1 else "the worker"
        because = f"{which} takes longer to hand over a batch than to make it"
    elif not _are_making(facts, wait):
        verb = "makes" if count == 1 else "make"
        because = (
            f"{fmt.several(count, 'worker')} {verb} batches in only "
            f"{fmt.percent(busy(facts) or 0)} of the time, and the rest is handing them over"
        )
    else:
        return None
    none_better = better_without_workers(facts)
    lost = lost_to_workers(facts, wait, because + none_better, figures, HANDOVER.fixes)
    # Where none are better, it is their number that is wrong, not the line that makes batches.
    return replace(lost, place=loader_place(facts)) if none_better else lost


def _are_making(facts: Facts, wait: InputWait) -> bool:
    """Whether workers make batches while the training waits, as far as is known; where other
    programs take the cores, either side may wait for one instead."""
    share = busy(facts)
    if share is None or busy_host(facts):
        return True
    return _least_making(share, facts, wait)


def _least_making(share: float, facts: Facts, wait: InputWait) -> bool:
    return share * workers(facts) >= LEAST_MAKING * wait.wait / wait.of.mean


def _uneven(facts: Facts) -> Lost | None:
    wait, pattern = _unsaturated(facts), wait_pattern(facts)
    if wait is None or (pattern and pattern.at_epochs >= AT_EPOCHS):
        # The first batches of an epoch are waited for, however even they are.
        return None
    found, fixes = unevenness(facts), UNEVEN.fixes
    if found.worker is not None and found.times >= SLOW_WORKER:
        # However long its queue is, it falls behind.
        fixes = ()
        because = (
            f"worker {found.worker} takes {found.times:.1f} times as long for a batch as the others"
        )
    elif found.of_time >= OF_TIME:
        because = (
            f"a few batches take most of the time, {found.of_time:.1f} times as long as the mean "
            "one, and the others wait for them"
        )
    else:
        return None
    return lost_to_workers(facts, wait, because, fixes=fixes)


def _bursty(facts: Facts) -> Lost | None:
    wait, pattern = _unsaturated(facts), wait_pattern(facts)
    if wait is None or pattern is None or not pattern.is_bursty or pattern.is_rare:
        return None
    many = f"every {pattern.every:.0f} steps" if pattern.is_regular else "now and then"
    because = (
        f"batches come in bursts: {many} it waits long, and hardly at all in between (95 % of "
        f"waits are below {fmt.duration(pattern.p95)}, half of them below "
        f"{fmt.duration(pattern.p50)})"
    )
    lost = lost_to_workers(facts, wait, because, fixes=BURSTY.fixes)
    # Whoever waits for a core makes or takes batches in bursts, too.
    return replace(lost, doubt=busy_host(facts))


def _unsaturated(facts: Facts) -> InputWait | None:
    """The wait for workers that make batches, and have time left."""
    share, wait = busy(facts), waits_for_workers(facts)
    if wait is None or share is None or share >= SATURATED:
        return None
    return wait if _least_making(share, facts, wait) else None


HANDOVER = Rule(
    id="input-handover",
    when="handing batches from the workers to the training takes longer than making them",
    explanation=(
        "Each tensor of a batch is put into shared memory, sent through a queue and opened by the "
        "training process: tens of microseconds each, plus the copy. A few large tensors cost "
        "little; thousands of small ones, or very large batches, cost a lot. Stack tensors in the "
        "collate function, or use num_workers=0 if the data is already in memory."
    ),
    lost=_handover,
    limits=WAIT_LIMITS,
    claims=WAIT,
    fixes=("loader-no-workers",),
    answer="stack tensors in collate; num_workers=0 for data in memory",
)

UNEVEN = Rule(
    id="input-uneven",
    when="one worker, or one batch in many, takes most of the time",
    explanation=(
        "Batches are delivered in order, so a slow one holds up the ready ones behind it and the "
        "other workers run out of work. Split long samples, sort or shard them evenly, raise "
        "prefetch_factor, or pass in_order=False."
    ),
    lost=_uneven,
    limits=WAIT_LIMITS,
    claims=WAIT,
    fixes=("loader-prefetch",),
    answer="even samples, prefetch_factor, in_order=False",
)

BURSTY = Rule(
    id="input-bursty",
    when="batches come in bursts: most steps do not wait, some wait long",
    explanation=(
        "Workers have time to spare, but batches become ready only now and then, for example once "
        "a shard has been read. A deeper queue (prefetch_factor) bridges the gaps."
    ),
    lost=_bursty,
    limits=WAIT_LIMITS,
    claims=WAIT,
    fixes=("loader-prefetch",),
    answer="prefetch_factor, smaller shards",
)
