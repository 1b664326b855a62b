"""Every fix that is known, by its identifier."""

from __future__ import annotations

from perftui.diagnosis.model import Finding
from perftui.facts.fact import Facts
from perftui.fixes.compilation import CHANNELS_LAST, COMPILE, COMPILE_DYNAMIC, COMPILE_GRAPHS
from perftui.fixes.data_loader import PERSISTENT, PIN, PREFETCH, WORKER_THREADS
from perftui.fixes.distributed import ALL_USED, BUCKET_VIEW, BUCKETS, NO_SYNC
from perftui.fixes.fix import Fix, option
from perftui.fixes.fused_operators import ATTENTION, ELEMENTWISE, RECOMPUTE
from perftui.fixes.gradients import BACKWARD_ONCE, CLIP, NO_GRAD, REQUIRES_GRAD
from perftui.fixes.optimizer import FOREACH, FOREACH_AVERAGE, FUSED
from perftui.fixes.option import FixOption
from perftui.fixes.script_overhead import (
    AFFINITY,
    COLLECT,
    DEFAULT_DTYPE,
    EMPTY_CACHE,
    EVALUATE_LESS,
    FREEZE,
    LESS_OFTEN,
    SCHEDULE,
    SLEEP,
)
from perftui.fixes.switches import (
    ANOMALY,
    AUTOCAST,
    CUDNN_BENCHMARK,
    CUDNN_SEARCH_OFF,
    DETERMINISTIC,
    EXPANDABLE_SEGMENTS,
    ONEDNN,
    TF32,
    THREADS,
)
from perftui.fixes.workers import NO_WORKERS, WORKERS

FIXES: tuple[Fix, ...] = (
    *(WORKERS, NO_WORKERS, PREFETCH, PIN, PERSISTENT, WORKER_THREADS),
    *(FUSED, FOREACH),
    *(THREADS, ANOMALY, DETERMINISTIC, ONEDNN),
    *(COLLECT, SLEEP, EMPTY_CACHE, AFFINITY, DEFAULT_DTYPE),
    *(LESS_OFTEN, NO_GRAD, EVALUATE_LESS),
    *(RECOMPUTE, COMPILE_DYNAMIC, COMPILE, COMPILE_GRAPHS),
    *(TF32, AUTOCAST, CUDNN_BENCHMARK, CUDNN_SEARCH_OFF, CHANNELS_LAST),
    *(NO_SYNC, BUCKET_VIEW, BUCKETS, ALL_USED, EXPANDABLE_SEGMENTS),
    *(SCHEDULE, FREEZE, REQUIRES_GRAD),
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
