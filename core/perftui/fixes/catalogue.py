"""Every fix that is known, by its identifier."""

from __future__ import annotations

from perftui.diagnosis.model import Finding
from perftui.facts.fact import Facts
from perftui.fixes.compilation import CHANNELS_LAST, COMPILE, COMPILE_DYNAMIC, compile_graphs
from perftui.fixes.data_loader import loader_persistent, loader_pin, loader_prefetch, worker_threads
from perftui.fixes.distributed import ALL_USED, BUCKET_VIEW, BUCKETS, NO_SYNC
from perftui.fixes.fix import Fix, option
from perftui.fixes.fused_operators import ATTENTION, ELEMENTWISE, RECOMPUTE
from perftui.fixes.gradients import BACKWARD_ONCE, CLIP, NO_GRAD, REQUIRES_GRAD
from perftui.fixes.optimizer import FOREACH_AVERAGE, optimizer_foreach, optimizer_fused
from perftui.fixes.option import FixOption
from perftui.fixes.script_overhead import (
    AFFINITY,
    COLLECT,
    DEFAULT_DTYPE,
    EMPTY_CACHE,
    EVALUATE_LESS,
    SCHEDULE,
    SLEEP,
    gc_freeze,
    less_often,
)
from perftui.fixes.switches import (
    AUTOCAST,
    CUDNN_BENCHMARK,
    CUDNN_SEARCH_OFF,
    TF32,
    anomaly_off,
    deterministic_off,
    expandable_segments,
    onednn_on,
    threads,
)
from perftui.fixes.workers import loader_no_workers, loader_workers

FIXES: tuple[Fix, ...] = (
    *(
        loader_workers,
        loader_no_workers,
        loader_prefetch,
        loader_pin,
        loader_persistent,
        worker_threads,
    ),
    *(optimizer_fused, optimizer_foreach),
    *(threads, anomaly_off, deterministic_off, onednn_on),
    *(COLLECT, SLEEP, EMPTY_CACHE, AFFINITY, DEFAULT_DTYPE),
    *(less_often, NO_GRAD, EVALUATE_LESS),
    *(RECOMPUTE, COMPILE_DYNAMIC, COMPILE, compile_graphs),
    *(TF32, AUTOCAST, CUDNN_BENCHMARK, CUDNN_SEARCH_OFF, CHANNELS_LAST),
    *(NO_SYNC, BUCKET_VIEW, BUCKETS, ALL_USED, expandable_segments),
    *(SCHEDULE, gc_freeze, REQUIRES_GRAD),
    *(ATTENTION, ELEMENTWISE, BACKWARD_ONCE),
    *(FOREACH_AVERAGE, CLIP),
)

CATALOGUE = {fix.id: fix for fix in FIXES}


def fixes_of(finding: Finding) -> tuple[Fix, ...]:
    """The fixes that answer ``finding``, best first; one that a newer version has written into
    ``findings.json`` is left out."""
    return tuple(CATALOGUE[fix] for fix in finding.fixes if fix in CATALOGUE)


def options(finding: Finding, facts: Facts) -> tuple[FixOption, ...]:
    """The fixes of ``finding`` as they can be offered for this run, best first.

    Reads and parses source files, which takes some tenths of a second: never call it where a
    screen waits. A fix that cannot be offered is there all the same, with the reason.
    """
    offers = (option(fix, facts) for fix in fixes_of(finding))
    return tuple(offer for offer in offers if offer)
