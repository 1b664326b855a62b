"""Workers of the data loader that do not keep up: by what they do, or by how batches come."""

from __future__ import annotations

from dataclasses import replace

from perftui import format as fmt
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Lost
from perftui.diagnosis.symptoms.data_loader.input_wait import (
    WAIT_LIMITS,
    busy,
    data_fixes,
    loader_of_workers,
    lost_to_workers,
    unproven,
    wait_figures,
    wait_rule,
    waits_for_workers,
    workers,
)
from perftui.facts.cpu.machine import busy_host, machine_use, ranks_here
from perftui.facts.data_loader.batch_place import (
    LEAST_NAMED,
    batch_lines,
    batch_place,
    collate_place,
    is_first_reading,
    loader_lines,
    loader_place,
    reading,
)
from perftui.facts.data_loader.input_wait import (
    InputWait,
    better_without_workers,
    input_wait,
    wait_pattern,
)
from perftui.facts.data_loader.loader import (
    WorkerUse,
    loader_work,
    training_loader,
    unevenness,
    wait_cpu,
    worker_use,
)
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.settings import settings
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.steps import wait_p95

WORKERS_IDLE = 0.5
"""Share of busy time below which more workers would be of no use. Measured: 0.78 with workers that
held up the training, 0.44 with workers that kept up."""

AT_EPOCHS = 0.5
"""Share of all waiting from which the beginning of epochs is what waits."""

FIRST_READING = "files were read for the first time: the latest third of the steps hardly waits"
"""Why a wait is no fault of the training's."""

SATURATED = 0.8
"""Share of busy time from which workers make all the batches they can."""

UNPACKING = 0.5
"""Computing share of the wait from which it is the training thread's own work."""

LEAST_MAKING = 0.5
"""Share of the wait in which some worker makes batches, from which workers are waited for."""

OF_TIME = 3.0
"""Ratio of the batch made at a random moment to the mean one: above it, few hold most of the
time."""

SLOW_WORKER = 2.0
"""Ratio of a slow worker's time per batch to the others'; gpuprof has 2.5."""


@wait_rule(
    when="handing batches from the workers to the training takes longer than making them",
    fixes=("loader-no-workers",),
    answer=(
        "stack tensors in the collate function, or use num_workers=0 for data that is already in "
        "memory"
    ),
)
def input_handover(facts: Facts) -> Lost | None:
    """Each tensor of a batch is put into shared memory, sent through a queue and opened by the
    training: tens of microseconds each, plus the copy. Thousands of small tensors and very large
    batches cost the most."""
    wait = waits_for_workers(facts)
    if wait is None:
        return None
    unpacks, use, count = wait_cpu(facts), worker_use.or_none(facts), workers(facts)
    share = busy(facts)
    figures = [] if unpacks is None else [Figure.share("CPU use while waiting", unpacks)]
    packs = use is not None and not use.has_threads and use.others >= use.cpu + use.blocked
    if packs and use is not None:
        figures.append(Figure("cores used to hand over", round(use.others, 2)))
    if unpacks is not None and unpacks >= UNPACKING:
        hands = _workers(facts, "hand")
        because = f"for {fmt.percent(unpacks)} of that time it unpacks what {hands} over"
    elif packs:
        which = "a worker" if count > 1 else "the worker"
        because = f"{which} takes longer to hand over a batch than to make it"
    elif share is not None and not busy_host(facts) and not _least_making(share, facts, wait):
        # If other programs take the cores, either side may wait for one instead.
        because = (
            f"{_workers(facts, 'make')} batches in only {fmt.percent(share)} of the time, and "
            "hand them over in the rest"
        )
    else:
        return None
    none_better = better_without_workers(facts)
    lost = lost_to_workers(facts, wait, because + none_better, figures, input_handover.fixes)
    # If none are better, the cause is their number, not the line that makes batches.
    others = loader_place(facts) if none_better else lost.place
    is_packed = packs or (unpacks is not None and unpacks >= UNPACKING)
    return replace(lost, place=(is_packed and collate_place(facts)) or others)


def _workers(facts: Facts, verb: str) -> str:
    """``1 worker makes``, or ``4 workers make``."""
    count = workers(facts)
    return f"{fmt.several(count, 'worker')} {verb}{'s' if count == 1 else ''}"


def _least_making(share: float, facts: Facts, wait: InputWait) -> bool:
    """Whether workers this busy make batches while the training waits."""
    return share * workers(facts) >= LEAST_MAKING * wait.wait / wait.of.mean


@wait_rule(
    when="one worker, or one batch in many, takes most of the time",
    fixes=("loader-prefetch",),
    answer=(
        "split, sort or shard long samples evenly, raise prefetch_factor, or pass in_order=False"
    ),
)
def input_uneven(facts: Facts) -> Lost | None:
    """Batches are delivered in order: a slow one holds up the ready ones behind it, and the other
    workers run out of work."""
    wait, pattern = _unsaturated(facts), wait_pattern(facts)
    if wait is None or (pattern and pattern.at_epochs >= AT_EPOCHS):
        # The first batches of an epoch are waited for, however even they are.
        return None
    (of_time, worker, times), fixes = unevenness(facts), input_uneven.fixes
    if worker is not None and times >= SLOW_WORKER:
        # It falls behind whatever the length of its queue.
        fixes = ()
        because = f"worker {worker} takes {times:.1f} times as long for a batch as the others"
    elif of_time >= OF_TIME:
        because = (
            f"a few batches take {of_time:.1f} times as long as the mean one, and the others "
            "wait for them"
        )
    else:
        return None
    return lost_to_workers(facts, wait, because, fixes=fixes)


@wait_rule(
    when="batches come in bursts: most steps do not wait, some wait long",
    fixes=("loader-prefetch",),
    answer="raise prefetch_factor, or make shards smaller",
)
def input_bursty(facts: Facts) -> Lost | None:
    """Workers have time to spare, but batches become ready only now and then, for example once a
    shard has been read. A longer queue bridges the gaps."""
    wait, pattern = _unsaturated(facts), wait_pattern(facts)
    if wait is None or pattern is None or not pattern.is_bursty:
        return None
    many = f"every {pattern.every:.0f} steps" if pattern.is_regular else "now and then"
    because = (
        f"batches come in bursts: {many} the training waits long, and hardly at all in between "
        f"(95 % of waits are below {fmt.duration(pattern.p95)}, half of them below "
        f"{fmt.duration(pattern.p50)})"
    )
    lost = lost_to_workers(facts, wait, because, fixes=input_bursty.fixes)
    # A worker or training that waits for a core makes or takes batches in bursts, too.
    return replace(lost, doubt=busy_host(facts))


def _unsaturated(facts: Facts) -> InputWait | None:
    """The wait for workers that make batches and have time left."""
    share, wait = busy(facts), waits_for_workers(facts)
    if wait is None or share is None or share >= SATURATED:
        return None
    return wait if _least_making(share, facts, wait) else None


COMPUTING = 0.85
"""Share of computing in the time of making batches, without waits for a core, from which workers
are CPU-bound."""

BLOCKED = 0.5
"""Share of that time from which workers mostly wait for something other than a core."""

DELAYED = 0.2
"""Share of the time of making batches from which waiting for a core is reported."""

TOO_MANY = 1.2
"""Ratio of wanted to available cores from which workers and training slow each other down."""


def _busy_use(facts: Facts) -> tuple[InputWait, WorkerUse]:
    """The wait, and the resource use of workers; not applicable unless they are mostly busy."""
    wait, share = waits_for_workers(facts), busy(facts)
    if wait is None or share is None or share < WORKERS_IDLE:
        raise NotApplicableError
    return wait, worker_use(facts)


@wait_rule(
    when="workers and the training want more cores than there are",
    fixes=("loader-no-workers",),
    answer=(
        "use fewer workers, or one thread in each: torch.set_num_threads(1) and "
        "cv2.setNumThreads(0) in worker_init_fn"
    ),
)
def workers_oversubscribed(facts: Facts) -> Lost | None:
    """The workers, their threads and the training's threads wait for each other. Fewer of them make
    the same batches with less waiting."""
    (wait, use), cores = _busy_use(facts), machine_use(facts).cores
    if not cores:
        return None
    asked = _asked(facts, wait, use)
    if asked < TOO_MANY * cores or use.delayed < DELAYED:
        return None
    if not use.has_threads and busy_host(facts):
        # They may wait for cores that other programs take.
        return None
    count, none_better = workers(facts) * max(ranks_here(facts), 1), better_without_workers(facts)
    plus = f", each with {use.computing_threads:.0f} threads," if use.has_threads else ""
    fixes = ("loader-no-workers",) if none_better else ()
    because = (
        f"{fmt.several(count, 'worker')}{plus} and the training could use {asked:.1f} "
        f"cores and have {cores}: a worker waits {fmt.percent(use.delayed)} of its time "
        f"for a core{none_better}"
    )
    lost = lost_to_workers(facts, wait, because, _use_figures(use), fixes)
    return _with_training(facts, lost, machine_use(facts).delayed or 0.0)


def _with_training(facts: Facts, lost: Lost, delayed: float) -> Lost:
    """``lost`` with the time in which the training also waits for a core taken by workers."""
    judged = judged_step(facts)
    waits = min(round(delayed * judged.of.mean), judged.computing)
    if judged.on_device or not waits:
        return lost
    return replace(
        lost,
        cost_ns=lost.cost_ns + waits,
        sentence=(
            f"{lost.sentence.removesuffix('.')}; the training waits for a core "
            f"{judged.of.part_of(waits)}."
        ),
        parts=("input_wait", *judged.names(computes=True)),
    )


def _asked(facts: Facts, wait: InputWait, use: WorkerUse) -> float:
    """Cores that the workers and the training could keep busy, at their current use."""
    share = use.cpu + use.delayed
    # A thread that waits for a core as long as the others exists all the time.
    share *= use.computing_threads
    ranks, threads = max(ranks_here(facts), 1), settings(facts).threads.intra_op or 1
    computes = 1 - wait.wait / wait.of.mean
    return ranks * (workers(facts) * (busy(facts) or 0.0) * share + threads * computes)


@wait_rule(
    when="workers compute all the time and cannot keep up",
    fixes=("loader-workers", "loader-pin"),
    answer=(
        "use more workers while cores are free, make the named line cheaper, or do its work once "
        "before the training"
    ),
)
def input_worker_bound(facts: Facts) -> Lost | None:
    """The CPU limits the workers, not the disk: making batches needs more cores than they have."""
    wait, use = _busy_use(facts)
    if use.computing < COMPUTING:
        return None
    late = f" ({fmt.percent(use.delayed)} waiting for a core)" if use.delayed >= DELAYED else ""
    because = f"{_workers(facts, 'compute')} all the time while making batches{late}{_at(facts)}"
    return lost_to_workers(facts, wait, because, _use_figures(use))


@wait_rule(
    when="workers mostly wait for a disk or a network",
    fixes=("loader-workers", "loader-pin"),
    answer=(
        "copy the data to a local disk, put many samples into each file, or let more workers wait "
        "in parallel"
    ),
)
def input_disk_bound(facts: Facts) -> Lost | None:
    """While making a batch, a worker hardly computes: it waits for files."""
    wait, use = _busy_use(facts)
    if use.computing > 1 - BLOCKED:
        return None
    because = (
        f"while making batches, {_workers(facts, 'wait')} {fmt.percent(use.blocked)} of the time "
        f"{reading(facts)}{_at(facts)}"
    )
    lost = lost_to_workers(facts, wait, because, (*_use_figures(use), *_read_figures(use)))
    return replace(lost, doubt=FIRST_READING if is_first_reading(facts) else "")


def _at(facts: Facts) -> str:
    lines = batch_lines(facts)
    return f", {lines.named}" if lines and lines.named else ""


def _use_figures(use: WorkerUse) -> list[Figure]:
    return [
        Figure.share("of making batches, workers compute", use.cpu),
        Figure.share("wait for a core", use.delayed),
        Figure.share("wait for anything else", use.blocked),
        Figure("cores of a worker's other threads", round(use.others, 2)),
        Figure("threads of a worker", round(use.threads, 1)),
    ]


def _read_figures(use: WorkerUse) -> list[Figure]:
    mean = [] if use.mean_read is None else [Figure("mean read", round(use.mean_read), "B")]
    return [
        Figure("read from storage in a second", round(use.read), "B"),
        Figure("reads in a second", round(use.reads), "count"),
        *mean,
        Figure("page faults in a second", round(use.faults), "count"),
    ]


RARE = 0.5
"""Part of the mean below which 95 % of waits lie if few steps hold most of the wait. Workers that
are too slow make most steps wait: then the two are similar."""


@wait_rule(
    when="the training waits for data, whatever the cause",
    fixes=("loader-workers", "loader-pin", "loader-no-workers"),
    answer="use more workers and pinned memory, or make the transforms cheaper",
)
def input_bound(facts: Facts) -> Lost | None:
    """The evidence shows how busy the workers and the disk are."""
    wait = input_wait(facts)
    if wait.wait < WAIT_LIMITS.warning * wait.of.mean:
        return None
    is_rare, fixes = _is_rare(facts, wait), data_fixes(wait, facts)
    none_better = "" if is_rare else better_without_workers(facts)
    if is_rare:
        fixes = ()
    elif none_better:
        fixes = ("loader-no-workers",)
    elif wait.of.of_run and _are_idle(facts):
        fixes = tuple(fix for fix in fixes if fix != "loader-workers")
    return Lost(
        wait.wait,
        wait.of,
        f"{wait.sentence}{_because(facts, wait)}{none_better}.",
        (*wait_figures(wait, facts, WAIT_LIMITS), *loader_of_workers(facts)),
        place=loader_place(facts) if none_better else batch_place(facts),
        fixes=fixes,
        worst=Severity.INFO if _are_idle(facts) and busy_host(facts) else Severity.CRITICAL,
        doubt=FIRST_READING if is_first_reading(facts) else "",
        unproven=unproven(wait),
    )


def _is_rare(facts: Facts, wait: InputWait) -> bool:
    """Whether a few steps do nearly all of the waiting: more workers would not shorten it."""
    p95 = wait_p95(facts)
    return wait.of.of_run and p95 is not None and p95 < RARE * wait.wait


def _are_idle(facts: Facts) -> bool:
    """Whether the workers are mostly idle: more of them would be idle as well."""
    share = busy(facts)
    return share is not None and share < WORKERS_IDLE


def _because(facts: Facts, wait: InputWait) -> str:
    """The certain part of the cause: how many workers could not keep up."""
    feeds, count = training_loader(facts), workers(facts)
    if count and _is_rare(facts, wait):
        return f", nearly all of it in fewer than one step in twenty{_when(facts)}"
    if feeds is None or feeds.num_workers is None:
        return ""
    if not count:
        return ": the loader runs in the main thread (num_workers=0)"
    return _how_busy(facts, count)


def _when(facts: Facts) -> str:
    """Which steps wait, to end a sentence; empty if unknown."""
    feeds, pattern = training_loader(facts), wait_pattern(facts)
    if feeds is not None and feeds.persistent_workers is False:
        return (
            ": workers restart with each epoch and its first step waits for them, unless "
            "persistent_workers=True keeps them"
        )
    at_epochs = pattern is not None and pattern.at_epochs >= AT_EPOCHS
    return ": those that begin an epoch, when the queue is empty" if at_epochs else ""


def _how_busy(facts: Facts, count: int) -> str:
    work = loader_work(facts)
    if work is not None and work.busy is not None and _are_idle(facts):
        host = busy_host(facts)
        elsewhere = f", and {host}" if host else ""
        share = fmt.percent(work.busy)
        return f", though {_workers(facts, 'make')} batches in only {share} of the time{elsewhere}"
    slow = f": {fmt.several(count, 'worker')} {'does' if count == 1 else 'do'} not keep up"
    if work is None or work.busy is None:
        return slow
    lines = loader_lines(facts)
    line, at = lines.making.named(LEAST_NAMED * lines.making.covered) if lines else (None, "")
    where = f" ({fmt.percent(lines.making.share(line))} of it {at})" if lines and line else ""
    mostly = "fetching samples" if work.fetch >= work.collate else "collating"
    return f"{slow}, mostly {mostly}{where}"
