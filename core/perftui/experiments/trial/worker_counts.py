"""Finds the number of loader workers by running the training with 1, 2, 4 and so on."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path

from perftui.experiments.rerun import rerun_launch
from perftui.experiments.trial.finished import facts_of
from perftui.experiments.trial.next_run import Began, NextRun, Purpose, unseen
from perftui.experiments.trial.runs import Arm, shortened, steps_of_each
from perftui.experiments.trial.timed import measured
from perftui.facts.cpu.machine import machine_use, ranks_here
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.data_loader.measured_workers import measured_workers
from perftui.facts.fact import Facts
from perftui.fixes.model import FixOption
from perftui.fixes.workers import WORKERS, with_workers
from perftui.run.reader import RunSnapshot
from perftui.run.worker_curve import CurvePoint, WorkerCurve, write_worker_curve

SECONDS = 2.0
"""Steady time of each run: enough to tell numbers apart by more than the curve's ``LEVEL``."""


def counts_to_try(facts: Facts) -> tuple[int, ...]:
    """Powers of two above the workers that there are, up to one a core of each rank, beyond which
    PyTorch warns; empty where that leaves no choice."""
    loader, cores = training_loader(facts), machine_use(facts).cores
    if loader is None or cores is None:
        return ()
    most = cores // max(ranks_here(facts), 1)
    counts = [1 << power for power in range(most.bit_length())]
    found = tuple(count for count in counts if (loader.num_workers or 0) < count <= most)
    return found if len(found) > 1 else ()


def counts_for(facts: Facts, option: FixOption) -> tuple[int, ...]:
    """The numbers of workers to try before pairs of ``option``: none where it is another fix, or
    they were measured before."""
    is_measured = option.fix != WORKERS.id or measured_workers(facts) is not None
    return () if is_measured or option.override is None else counts_to_try(facts)


def best_option(
    run: RunSnapshot,
    option: FixOption,
    directory: Path,
    cancelled: threading.Event,
    began: Began = unseen,
) -> Generator[WorkerCurve, None, FixOption]:
    """``option``, for ``loader-workers`` with the number of workers that was measured to be best.

    Yields the curve as it grows. It ends where twice as many workers bring nothing more, and is
    kept in the directory of ``run``.

    Raises:
        TrialError: a run failed or is too short to judge.
        TrialCancelledError: ``cancelled`` was set.
        OSError: a run cannot be started, or the curve not be kept.
    """
    if option.fix != WORKERS.id:
        return option
    facts = facts_of(run.root)
    counts = counts_for(facts, option)
    if not counts:
        return option
    steps = steps_of_each(facts, SECONDS)
    curve = WorkerCurve(())
    for at, count in enumerate(counts, 1):
        tried = with_workers(facts, count)
        if tried is None or tried.override is None:
            return option
        launch = shortened(rerun_launch(run, tried), directory, steps)
        began(NextRun(Purpose.WORKERS, workers=count, further=len(counts) - at))
        step = measured(Arm.AFTER, launch, cancelled).step_ns
        curve = WorkerCurve((*curve.points, CurvePoint(count, step)))
        yield curve
        if curve.is_level:
            break
    if curve.best is None:
        return option
    write_worker_curve(run.root, curve)
    return with_workers(facts, curve.best) or option
