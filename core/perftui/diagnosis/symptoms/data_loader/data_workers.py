"""Workers that are too slow, by what they do: compute, wait for a disk, or wait for a core."""

from __future__ import annotations

from dataclasses import replace

from perftui import format as fmt
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.data_loader.data_waiting import (
    FIRST_READING,
    WAIT,
    WORKERS_IDLE,
    busy,
    lost_to_workers,
    waits_for_workers,
    workers,
)
from perftui.diagnosis.symptoms.data_loader.wait_limits import WAIT_LIMITS
from perftui.facts.cpu.machine import busy_host, machine_use, ranks_here
from perftui.facts.data_loader.batch_place import batch_lines
from perftui.facts.data_loader.files_read import is_first_reading, reading
from perftui.facts.data_loader.input_wait import InputWait
from perftui.facts.data_loader.loader_use import WorkerUse, worker_use
from perftui.facts.data_loader.without_workers import better_without_workers
from perftui.facts.fact import Facts
from perftui.facts.settings import settings
from perftui.facts.step.judged_step import judged_step

COMPUTING = 0.85
"""Share of computing in the time of making batches, without the waits for a core, from which on
workers are bound by the processor."""

BLOCKED = 0.5
"""Share of that time from which on workers mostly wait for something else than a core."""

DELAYED = 0.2
"""Share of the time of making batches from which on waiting for a core is worth a word."""

TOO_MANY = 1.2
"""Times the cores that workers and training ask for, from which on they are in each other's way."""


def _busy_use(facts: Facts, least: float) -> tuple[InputWait, WorkerUse] | None:
    """The wait, and what workers use that are busy for so much of their time."""
    wait, share = waits_for_workers(facts), busy(facts)
    if wait is None or share is None or share < least:
        return None
    return wait, worker_use(facts)


def _oversubscribed(facts: Facts) -> Lost | None:
    found, cores = _busy_use(facts, WORKERS_IDLE), machine_use(facts).cores
    if found is None or not cores:
        return None
    wait, use = found
    asked = _asked(facts, wait, use)
    if asked < TOO_MANY * cores or use.delayed < DELAYED:
        return None
    if not use.has_threads and busy_host(facts):
        # They may wait for cores that other programs take.
        return None
    count, plus = workers(facts) * max(ranks_here(facts), 1), ""
    fixes: tuple[str, ...] = ()
    if use.has_threads:
        fixes = ("worker-threads",)
        plus = f", each with {use.computing_threads:.0f} threads,"
    none_better = better_without_workers(facts)
    if none_better:
        fixes = (*fixes, "loader-no-workers")
    because = (
        f"{fmt.several(count, 'worker')}{plus} and the training want {asked:.1f} of "
        f"{fmt.several(cores, 'core')}, and a worker waits {fmt.percent(use.delayed)} of its time "
        f"for a core{none_better}"
    )
    lost = lost_to_workers(facts, wait, because, _use_figures(use), fixes)
    return _with_training(facts, lost, machine_use(facts).delayed or 0.0)


def _with_training(facts: Facts, lost: Lost, delayed: float) -> Lost:
    """``lost`` with the time in which the training, too, waits for a core that workers take."""
    judged = judged_step(facts)
    waits = min(round(delayed * judged.of.mean), judged.computing)
    if judged.on_device or not waits:
        return lost
    computing = tuple(part.name for part in judged.parts if part.computes)
    return replace(
        lost,
        cost_ns=lost.cost_ns + waits,
        sentence=(
            f"{lost.sentence.removesuffix('.')}; the training waits for a core "
            f"{fmt.part_of_step(waits, judged.of.mean)}."
        ),
        parts=("input_wait", *computing),
    )


def _asked(facts: Facts, wait: InputWait, use: WorkerUse) -> float:
    """Cores that the workers and the training could keep busy, as they are used now."""
    each = use.cpu + use.delayed
    # A thread that waits for a core as long as the others is there all the time.
    each *= use.computing_threads
    ranks, known = max(ranks_here(facts), 1), settings(facts)
    threads = (known.threads.intra_op if known and known.threads else None) or 1
    computes = 1 - wait.wait / wait.of.mean
    return ranks * (workers(facts) * (busy(facts) or 0.0) * each + threads * computes)


def _computing(facts: Facts) -> Lost | None:
    found = _busy_use(facts, WORKERS_IDLE)
    if found is None:
        return None
    wait, use = found
    if use.computing < COMPUTING:
        return None
    count = workers(facts)
    verb = "computes" if count == 1 else "compute"
    late = f" ({fmt.percent(use.delayed)} waiting for a core)" if use.delayed >= DELAYED else ""
    because = (
        f"{fmt.several(count, 'worker')} {verb} all the time while making batches{late}{_at(facts)}"
    )
    return lost_to_workers(facts, wait, because, _use_figures(use))


def _disk(facts: Facts) -> Lost | None:
    found = _busy_use(facts, WORKERS_IDLE)
    if found is None:
        return None
    wait, use = found
    if use.computing > 1 - BLOCKED:
        return None
    count = workers(facts)
    verb = "waits" if count == 1 else "wait"
    what = reading(facts)
    because = (
        f"while making batches, {fmt.several(count, 'worker')} {verb} "
        f"{fmt.percent(use.blocked)} of the time {what}{_at(facts)}"
    )
    lost = lost_to_workers(facts, wait, because, (*_use_figures(use), *_read_figures(use)))
    return replace(lost, doubt=FIRST_READING if is_first_reading(facts) else "")


def _at(facts: Facts) -> str:
    found = batch_lines(facts)
    return f", {found.named}" if found and found.named else ""


def _use_figures(use: WorkerUse) -> list[Figure]:
    return [
        Figure.share("of making batches, workers compute", use.cpu),
        Figure.share("wait for a core", use.delayed),
        Figure.share("wait for anything else", use.blocked),
        Figure("cores of a worker's other threads", round(use.others, 2)),
        Figure("threads of a worker", round(use.threads, 1)),
    ]


def _read_figures(use: WorkerUse) -> list[Figure]:
    figures = [
        Figure("read from storage in a second", round(use.read), "B"),
        Figure("reads in a second", round(use.reads), "count"),
        Figure("page faults in a second", round(use.faults), "count"),
    ]
    if use.mean_read is not None:
        figures.insert(2, Figure("mean read", round(use.mean_read), "B"))
    return figures


OVERSUBSCRIBED = Rule(
    id="workers-oversubscribed",
    when="workers and the training want more cores than there are",
    explanation=(
        "The workers, their threads and the training's threads share the cores and wait for each "
        "other. Fewer workers, or one thread per worker (torch.set_num_threads(1), "
        "cv2.setNumThreads(0) in worker_init_fn), make the same batches with less waiting."
    ),
    lost=_oversubscribed,
    limits=WAIT_LIMITS,
    claims=WAIT,
    fixes=("worker-threads", "loader-no-workers"),
    answer="one thread per worker, fewer workers",
)

COMPUTING_WORKERS = Rule(
    id="input-worker-bound",
    when="workers compute all the time and cannot keep up",
    explanation=(
        "The workers are limited by the CPU, not by the disk: the transform needs more cores than "
        "they have. More workers help if cores are free; otherwise make the named line cheaper, "
        "or do that work once before the training."
    ),
    lost=_computing,
    limits=WAIT_LIMITS,
    claims=WAIT,
    fixes=("loader-workers", "loader-pin"),
    answer="more workers up to the free cores, then a cheaper transform",
)

DISK = Rule(
    id="input-disk-bound",
    when="workers mostly wait for a disk or a network",
    explanation=(
        "While making a batch the worker hardly computes: it waits for files. A local copy, "
        "larger files with many samples each, or more workers waiting in parallel shorten the "
        "wait."
    ),
    lost=_disk,
    limits=WAIT_LIMITS,
    claims=WAIT,
    fixes=("loader-workers", "loader-pin"),
    answer="a local copy, larger files, more workers waiting in parallel",
)
