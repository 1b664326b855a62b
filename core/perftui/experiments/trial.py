"""Runs a training again and again, with a change and without, until it is known what it gains."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from perftui.experiments.blocks import block_pairs, block_plan
from perftui.experiments.conditions import effective_changes, incomparable
from perftui.experiments.effect import missed
from perftui.experiments.progress import (
    NO_PAIRS,
    Began,
    NextRun,
    Pair,
    Progress,
    Purpose,
    costs_of,
    unseen,
)
from perftui.experiments.rerun import repeat_launch, rerun_launch
from perftui.experiments.restore import restore_all
from perftui.experiments.trial_runs import (
    Arm,
    TrialRun,
    disturbance_notes,
    facts_of,
    measured,
    noise,
    order,
    runs_of,
    shortened,
    steps_of_each,
)
from perftui.experiments.verdict import (
    LOOKS,
    Agreement,
    LossCheck,
    Outcome,
    TrialVerdict,
    check_losses,
    is_decided,
    judge,
)
from perftui.facts.cpu.machine import machine_use, ranks_here
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.data_loader.measured_workers import measured_workers
from perftui.facts.fact import Facts
from perftui.fixes.model import FixOption, Risk
from perftui.fixes.workers import WORKERS, with_workers
from perftui.recorder.launch import Launch
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


FEWEST_RUNS, MOST_PAIRS = runs_of(LOOKS[0][0]), LOOKS[-1][0]


def trial(
    run: RunSnapshot,
    option: FixOption,
    directory: Path,
    steps: int,
    cancelled: threading.Event,
    most_pairs: int = MOST_PAIRS,
    began: Began = unseen,
) -> Iterator[Progress]:
    """Try ``option`` on the training of ``run``, and yield how things stand after each pair.

    Ends with the first verdict that is one, or after ``most_pairs``. The first run of all is not
    counted: it finds files and caches cold. Where the fix is a number of loader workers, several
    are run first, and the best is tried; where it is a switch of torch, blocks within runs are
    paired first, and runs only where those do not tell. Runs are kept in ``directory``.

    Raises:
        TrialError: a run failed or is too short to judge.
        TrialCancelledError: ``cancelled`` was set.
        OSError: a run cannot be started.
    """
    plan = block_plan(facts_of(run.root), option, steps)
    if plan is not None:
        progress = NO_PAIRS
        made = block_pairs(run, option, plan, directory, steps, cancelled, most_pairs, began)
        for progress in made:
            yield progress
        if is_decided(progress.verdict):
            return
    tried, points = yield from _counted(run, option, directory, cancelled, began)
    if points:
        yield replace(NO_PAIRS, workers=points, option=tried)
    before, after = repeat_launch(run), rerun_launch(run, tried)
    pairs = paired_runs(before, after, directory, steps, cancelled, most_pairs, tried.risks, began)
    for progress in pairs:
        yield replace(progress, workers=points, option=tried)


def _counted(
    run: RunSnapshot,
    option: FixOption,
    directory: Path,
    cancelled: threading.Event,
    began: Began,
) -> Generator[Progress, None, tuple[FixOption, tuple[CurvePoint, ...]]]:
    """``option`` with the best number of workers, and the steps that tell."""
    points: tuple[CurvePoint, ...] = ()
    counting = best_option(run, option, directory, cancelled, began)
    while True:
        try:
            points = next(counting).points
        except StopIteration as end:
            return end.value, points
        yield replace(NO_PAIRS, workers=points)


def paired_runs(
    before: Launch,
    after: Launch,
    directory: Path,
    steps: int,
    cancelled: threading.Event,
    most_pairs: int = MOST_PAIRS,
    risks: Sequence[Risk] = (),
    began: Began = unseen,
) -> Iterator[Progress]:
    """Hold ``after`` against ``before``, two launches of one training, as ``trial`` does.

    ``risks`` say by what losses may differ.
    """
    launches = {
        Arm.BEFORE: shortened(before, directory, steps),
        Arm.AFTER: shortened(after, directory, steps),
    }
    restore_all(directory)
    began(NextRun(Purpose.WARM_UP))
    first = measured(Arm.BEFORE, launches[Arm.BEFORE], cancelled)
    pairs: list[Pair] = []
    runs: list[TrialRun] = []
    for number, arms in enumerate(islice(order(), most_pairs), 1):
        made: dict[Arm, TrialRun] = {}
        for arm in arms:
            began(NextRun(Purpose.PAIR, number, arm))
            made[arm] = measured(arm, launches[arm], cancelled)
        pairs.append(Pair(made[Arm.BEFORE], made[Arm.AFTER]))
        runs += [made[arm] for arm in arms]
        progress = _progress(pairs, runs, first, risks)
        yield progress
        if is_decided(progress.verdict):
            return


def _progress(
    pairs: list[Pair], runs: list[TrialRun], first: TrialRun, risks: Sequence[Risk]
) -> Progress:
    before, after = (facts_of(one.root) for one in (pairs[-1].before, pairs[-1].after))
    floor = noise(runs)
    changes = effective_changes(before, after)
    checked = check_losses(
        [one.losses for one in (first, *runs) if one.arm is Arm.BEFORE],
        [one.losses for one in runs if one.arm is Arm.AFTER],
        risks,
    )
    if why := missed(after) or missed(before):
        verdict = TrialVerdict(Outcome.NO_EFFECT, f"no effect: {why}")
    elif why := incomparable(before, after) or _other_losses(checked):
        verdict = TrialVerdict(Outcome.NOT_COMPARABLE, f"not comparable: {why}")
    else:
        disturbed = any(run.disturbed for run in runs)
        verdict = judge([pair.ratio for pair in pairs], floor or 0.0, disturbed=disturbed)
    notes = (*disturbance_notes(runs), *verdict.notes)
    return Progress(tuple(pairs), verdict, floor, changes, notes, checked, costs_of(runs))


def _other_losses(checked: LossCheck) -> str:
    return checked.sentence if checked.agreement is Agreement.DIFFER else ""
