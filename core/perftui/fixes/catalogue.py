"""Every fix that is known, by its identifier."""

from __future__ import annotations

from perftui.diagnosis.model import Finding
from perftui.facts.fact import Facts
from perftui.fixes.allocator import EXPANDABLE_SEGMENTS
from perftui.fixes.attention import ATTENTION
from perftui.fixes.autocast import AUTOCAST
from perftui.fixes.backward_once import BACKWARD_ONCE
from perftui.fixes.clip_gradients import CLIP
from perftui.fixes.cuda_graphs import COMPILE_GRAPHS
from perftui.fixes.data_loader.loader import PERSISTENT, PIN
from perftui.fixes.data_loader.no_workers import NO_WORKERS
from perftui.fixes.data_loader.num_workers import WORKERS
from perftui.fixes.data_loader.prefetch import PREFETCH
from perftui.fixes.data_loader.worker_threads import WORKER_THREADS
from perftui.fixes.distributed import ALL_USED, BUCKET_VIEW, BUCKETS
from perftui.fixes.elementwise import ELEMENTWISE
from perftui.fixes.fix import Fix, option
from perftui.fixes.foreach_average import FOREACH_AVERAGE
from perftui.fixes.gc_freeze import FREEZE
from perftui.fixes.leave_out import AFFINITY, COLLECT, DEFAULT_DTYPE, EMPTY_CACHE, SLEEP
from perftui.fixes.less_often import EVALUATE_LESS, LESS_OFTEN
from perftui.fixes.model import FixOption
from perftui.fixes.no_grad import NO_GRAD
from perftui.fixes.no_sync import NO_SYNC
from perftui.fixes.optimizer import FOREACH, FUSED
from perftui.fixes.profiler_schedule import SCHEDULE
from perftui.fixes.recompute import RECOMPUTE
from perftui.fixes.requires_grad import REQUIRES_GRAD
from perftui.fixes.switches import ANOMALY, DETERMINISTIC, ONEDNN, THREADS
from perftui.fixes.torch_compile import COMPILE_DYNAMIC
from perftui.fixes.torch_switch import CUDNN_BENCHMARK, CUDNN_SEARCH_OFF, TF32
from perftui.fixes.whole_model import CHANNELS_LAST, COMPILE

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
    found = (option(fix, facts) for fix in fixes_of(finding))
    return tuple(each for each in found if each)
