"""Tries a switch of torch by pairs of blocks within runs.

A switch can flip while the training goes on, and two blocks of one run differ by less than two
runs do: it takes two runs of some seconds in place of thirteen. Every other run begins changed, so
that the first losses of both ways can be compared.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from statistics import median

from perftui.experiments.effect import missed
from perftui.experiments.fewest_steps import FEWEST_STEPS
from perftui.experiments.rerun import repeat_launch
from perftui.experiments.trial.blocks import BlockPlan, BlockRun, block_run
from perftui.experiments.trial.disturbances import disturbance_notes
from perftui.experiments.trial.finished import facts_of
from perftui.experiments.trial.next_run import Began, NextRun, Purpose, unseen
from perftui.experiments.trial.progress import Pair, Progress
from perftui.experiments.trial.restore import restore_all
from perftui.experiments.trial.runs import WARM_UP, Arm, TrialRun, noise, shortened
from perftui.experiments.trial.same_losses import Agreement, LossCheck, check_losses
from perftui.experiments.trial.timed import measured
from perftui.experiments.trial.verdict import Outcome, TrialVerdict, is_decided, judge
from perftui.fixes.model import FixOption
from perftui.run.reader import RunSnapshot


def block_pairs(
    run: RunSnapshot,
    option: FixOption,
    plan: BlockPlan,
    directory: Path,
    steps: int,
    cancelled: threading.Event,
    most_pairs: int,
    began: Began = unseen,
) -> Iterator[Progress]:
    """Try ``option`` by the blocks of ``plan``, and yield how things stand after each pair.

    Ends with the first verdict that is one, after ``most_pairs``, or where a run cannot be made
    that way: pairs of runs then have to tell.

    Raises:
        TrialError: the run failed that tells whether losses repeat.
        TrialCancelledError: ``cancelled`` was set.
        OSError: a run cannot be started.
    """
    restore_all(directory)
    so_far = _SoFar(option, plan)
    for arm in cycle(Arm):
        began(NextRun(Purpose.BLOCKS, len(so_far.pairs) + 1, arm))
        made = block_run(run, option, plan, arm, directory, steps, cancelled)
        if made is None:
            return
        so_far.add(made)
        if so_far.must_repeat:
            launch = shortened(repeat_launch(run), directory, WARM_UP + FEWEST_STEPS)
            began(NextRun(Purpose.LOSSES, len(so_far.pairs) + 1))
            so_far.runs.append(measured(Arm.BEFORE, launch, cancelled))
        for pair in made.pairs:
            so_far.pairs.append(pair)
            progress = so_far.progress()
            yield progress
            if is_decided(progress.verdict) or len(so_far.pairs) >= most_pairs:
                return


@dataclass
class _SoFar:
    """What was measured."""

    option: FixOption
    plan: BlockPlan
    runs: list[TrialRun] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)
    """By how much blocks of the same arm differ, one of each run."""
    pairs: list[Pair] = field(default_factory=list)

    def add(self, made: BlockRun) -> None:
        self.runs.append(made.run)
        floor = noise(list(made.blocks))
        if floor is not None:
            self.floors.append(floor)

    @property
    def losses(self) -> LossCheck:
        before, after = ([run.losses for run in self.runs if run.arm is arm] for arm in Arm)
        return check_losses(before, after, self.option.risks)

    @property
    def must_repeat(self) -> bool:
        """Whether losses differ, and one run without the change does not tell if they repeat."""
        has_losses = len(self.runs) == len(Arm) and all(run.losses for run in self.runs)
        return has_losses and self.losses.agreement is Agreement.NOT_CHECKED

    def progress(self) -> Progress:
        checked = self.losses
        floor = median(self.floors) if self.floors else None
        if why := missed(facts_of(self.pairs[-1].after.root)):
            verdict = TrialVerdict(Outcome.NO_EFFECT, f"no effect: {why}")
        elif checked.agreement is Agreement.DIFFER:
            verdict = TrialVerdict(Outcome.NOT_COMPARABLE, f"not comparable: {checked.sentence}")
        else:
            disturbed = any(run.disturbed for run in self.runs)
            ratios = [pair.ratio for pair in self.pairs]
            verdict = judge(ratios, floor or 0.0, disturbed=disturbed)
        return Progress(
            tuple(self.pairs),
            verdict,
            floor,
            notes=(*disturbance_notes(self.runs), *verdict.notes),
            losses=checked,
            block_steps=self.plan.steps,
        )
