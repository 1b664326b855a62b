"""A run in which a switch of torch flips between the script's setting and the changed one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from perftui.experiments.rerun import rerun_launch
from perftui.experiments.trial.finished import TrialError, facts_of
from perftui.experiments.trial.progress import Pair
from perftui.experiments.trial.runs import WARM_UP, Arm, TrialRun, shortened
from perftui.experiments.trial.timed import measured
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts
from perftui.facts.step.blocks import Block, blocks
from perftui.facts.step.steps import TRAIN, whole_training
from perftui.fixes.model import FixOption
from perftui.fixes.switches import TARGET
from perftui.run.manifest import Blocks
from perftui.run.reader import RunSnapshot

SETTLING = 4
"""Steps of a block that do not count: that of the flip, and those in which threads are made anew
and kernels are chosen anew."""

FEWEST_COUNTED = 5
"""Steps of a block that have to count."""

MOST_PAIRS_OF_RUN = 3

END = 2
"""Steps after the last block: the flip that ends it, and one more."""


@dataclass(frozen=True)
class BlockPlan:
    """Blocks of one run: how many pairs of them, how long, and what of each does not count."""

    pairs: int
    steps: int
    settling: int


def block_plan(facts: Facts, option: FixOption, steps: int) -> BlockPlan | None:
    """The blocks of a run of so many ``steps``; None where ``option`` is no switch, or they do not
    fit in."""
    if option.override is None or option.override.target != TARGET:
        return None
    length = whole_training(facts)
    if length is not None and length < steps:
        return None
    settling = SETTLING + _fetched_ahead(facts)
    for pairs in range(MOST_PAIRS_OF_RUN, 0, -1):
        each = (steps - WARM_UP - END) // (2 * pairs)
        if each >= settling + FEWEST_COUNTED:
            return BlockPlan(pairs, each, settling)
    return None


def _fetched_ahead(facts: Facts) -> int:
    """Batches that were loaded while the switch was the other way."""
    loader = training_loader(facts)
    return loader.queue_depth if loader is not None else 0


@dataclass(frozen=True)
class BlockRun:
    """A run with its blocks, two a pair; its arm is that of its first steps."""

    run: TrialRun
    blocks: tuple[TrialRun, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Blocks next to each other, one of either way."""
        by_arm = (
            {one.arm: one for one in self.blocks[at : at + 2]}
            for at in range(0, len(self.blocks), 2)
        )
        return tuple(Pair(pair[Arm.BEFORE], pair[Arm.AFTER]) for pair in by_arm)


def block_run(
    run: RunSnapshot,
    option: FixOption,
    plan: BlockPlan,
    arm: Arm,
    directory: Path,
    steps: int,
    cancelled: threading.Event,
) -> BlockRun | None:
    """Run the training with the blocks of ``plan``, and with its first steps as in ``arm``; None
    where it cannot be run that way, or its blocks are not whole.

    Raises:
        TrialCancelledError: ``cancelled`` was set.
        OSError: it cannot be started.
    """
    override = option.override and replace(
        option.override, blocks=Blocks(WARM_UP, plan.steps, begins_changed=arm is Arm.AFTER)
    )
    launch = rerun_launch(run, replace(option, override=override))
    try:
        made = measured(arm, shortened(launch, directory, steps), cancelled)
    except TrialError:
        return None
    timed = _timed(made, facts_of(made.root), plan)
    return BlockRun(made, timed) if len(timed) == 2 * plan.pairs else None


def _timed(made: TrialRun, facts: Facts, plan: BlockPlan) -> tuple[TrialRun, ...]:
    """The blocks of a run that its steps tell the length of."""
    timed = []
    for block in blocks(facts)[: 2 * plan.pairs]:
        step_ns = mean_step(facts, block, plan.settling)
        if step_ns is not None:
            arm = Arm.AFTER if block.is_changed else Arm.BEFORE
            timed.append(TrialRun(arm, made.root, step_ns))
    return tuple(timed)


def mean_step(facts: Facts, block: Block, settling: int) -> int | None:
    """Time from one training step of a block to the next, ns, with all between them and without
    the first ``settling``; None where a step is missing."""
    steps = facts.steps
    if not len(steps):
        return None
    rows = steps.where((steps["index"] >= block.first) & (steps["index"] < block.end))
    training = np.flatnonzero(rows["kind"] == TRAIN)[settling:]
    if len(training) < FEWEST_COUNTED or len(rows) != block.end - block.first:
        return None
    start = int(rows["start"][training[0]])
    last = int((rows["start"] + rows["duration"])[-1])
    return (last - start) // len(training)
