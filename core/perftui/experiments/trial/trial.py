"""Runs a training again and again, with a change and without, until it is known what it gains."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from perftui.experiments.effect import missed
from perftui.experiments.in_force import effective_changes
from perftui.experiments.rerun import repeat_launch, rerun_launch
from perftui.experiments.same_work import incomparable
from perftui.experiments.trial.block_pairs import block_pairs
from perftui.experiments.trial.blocks import block_plan
from perftui.experiments.trial.costs import costs_of
from perftui.experiments.trial.disturbances import disturbance_notes
from perftui.experiments.trial.finished import facts_of
from perftui.experiments.trial.next_run import Began, NextRun, Purpose, unseen
from perftui.experiments.trial.paired import LOOKS
from perftui.experiments.trial.progress import NO_PAIRS, Pair, Progress
from perftui.experiments.trial.restore import restore_all
from perftui.experiments.trial.runs import Arm, TrialRun, noise, order, runs_of, shortened
from perftui.experiments.trial.same_losses import Agreement, LossCheck, check_losses
from perftui.experiments.trial.timed import measured
from perftui.experiments.trial.verdict import Outcome, TrialVerdict, is_decided, judge
from perftui.experiments.trial.worker_counts import best_option
from perftui.fixes.model import FixOption, Risk
from perftui.recorder.launch import Launch
from perftui.run.reader import RunSnapshot
from perftui.run.worker_curve import CurvePoint

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
