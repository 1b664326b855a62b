"""Every fix that is known, by its identifier."""

from __future__ import annotations

from perftui.diagnosis.model import Finding
from perftui.facts.fact import Facts
from perftui.fixes.compilation import (
    COMPILE,
    attention_fused,
    channels_last,
    compile_dynamic,
    compile_graphs,
    elementwise_fused,
    recompute_off,
)
from perftui.fixes.data_loader import loader_persistent, loader_pin, loader_prefetch
from perftui.fixes.fix import Fix, option
from perftui.fixes.gradients import (
    ALL_USED,
    BUCKET_VIEW,
    backward_once,
    ddp_no_sync,
    no_grad,
    requires_grad_off,
)
from perftui.fixes.optimizer import foreach_average, optimizer_foreach, optimizer_fused
from perftui.fixes.option import FixOption
from perftui.fixes.script_overhead import (
    AFFINITY,
    COLLECT,
    DEFAULT_DTYPE,
    EMPTY_CACHE,
    EVALUATE_LESS,
    gc_freeze,
    less_often,
    profiler_schedule,
    sleep_off,
)
from perftui.fixes.switches import (
    CUDNN_BENCHMARK,
    TF32,
    anomaly_off,
    autocast_bf16,
    cudnn_search_off,
    deterministic_off,
    expandable_segments,
    onednn_on,
    threads,
)
from perftui.fixes.workers import loader_no_workers, loader_workers

FIXES: tuple[Fix, ...] = (
    *(loader_workers, loader_no_workers, loader_prefetch, loader_pin, loader_persistent),
    *(optimizer_fused, optimizer_foreach),
    *(threads, anomaly_off, deterministic_off, onednn_on),
    *(COLLECT, sleep_off, EMPTY_CACHE, AFFINITY, DEFAULT_DTYPE),
    *(less_often, no_grad, EVALUATE_LESS),
    *(recompute_off, compile_dynamic, COMPILE, compile_graphs),
    *(TF32, autocast_bf16, CUDNN_BENCHMARK, cudnn_search_off, channels_last),
    *(ddp_no_sync, BUCKET_VIEW, ALL_USED, expandable_segments),
    *(profiler_schedule, gc_freeze, requires_grad_off),
    *(attention_fused, elementwise_fused, backward_once),
    foreach_average,
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
