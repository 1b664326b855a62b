"""Runs a training with a change and without, in pairs of runs or blocks, until its gain shows."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice, pairwise
from statistics import fmean, median

import numpy as np

from perftui.experiments.conditions import conditions, in_force, in_force_changes, other_work
from perftui.experiments.files_of_trials import restore_all
from perftui.experiments.rerun import missed, repeat_launch, rerun_launch
from perftui.experiments.trial_runs import (
    NO_PAIRS,
    WARM_UP,
    Arm,
    NextRun,
    Pair,
    Progress,
    Purpose,
    TrialError,
    TrialRun,
    TrialSetup,
    costs_of,
    disturbance_notes,
    facts_of,
    noise,
    order,
    runs_of,
    steps_of_each,
)
from perftui.experiments.trial_verdict import (
    FEWEST_STEPS,
    LOOKS,
    Agreement,
    LossCheck,
    Outcome,
    TrialVerdict,
    check_losses,
    judge,
    speed_text,
)
from perftui.facts.cpu.machine import machine_use, ranks_here
from perftui.facts.data_loader.loader import (
    CurvePoint,
    WorkerCurve,
    measured_workers,
    training_loader,
    write_worker_curve,
)
from perftui.facts.fact import Facts, fact, notes_of
from perftui.facts.step.steps import TRAIN, whole_training
from perftui.fixes.option import FixOption, Risk
from perftui.fixes.switches import TARGET
from perftui.fixes.workers import loader_workers, with_workers
from perftui.recorder.launch import Launch
from perftui.run.manifest import Blocks
from perftui.run.reader import RunSnapshot


@dataclass(frozen=True)
class Block:
    """Steps in a row, from the number ``first``, in which the switch flips, to before ``end``."""

    is_changed: bool
    first: int
    end: int


@fact
def blocks(facts: Facts) -> tuple[Block, ...]:
    """The whole blocks of the rank in order, without the last, whose end is unknown."""
    return tuple(
        Block(bool(note["is_changed"]), int(note["step"]), int(following["step"]))
        for note, following in pairwise(notes_of(facts.events, "block"))
    )


SETTLING = 4
"""Steps of a block that do not count: the flip, and those in which threads are started and kernels
are chosen again."""

FEWEST_COUNTED = 5
"""Fewest steps of a block that count."""

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
    # Batches may have been loaded while the switch was the other way.
    loader = training_loader(facts)
    settling = SETTLING + (loader.queue_depth if loader is not None else 0)
    for pairs in range(MOST_PAIRS_OF_RUN, 0, -1):
        size = (steps - WARM_UP - END) // (2 * pairs)
        if size >= settling + FEWEST_COUNTED:
            return BlockPlan(pairs, size, settling)
    return None


@dataclass(frozen=True)
class BlockRun:
    """A run with its blocks, two a pair; its arm is that of its first steps."""

    run: TrialRun
    blocks: tuple[TrialRun, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Blocks next to each other, one of either way."""
        by_arm = (
            {block.arm: block for block in self.blocks[at : at + 2]}
            for at in range(0, len(self.blocks), 2)
        )
        return tuple(Pair(pair[Arm.BEFORE], pair[Arm.AFTER]) for pair in by_arm)


def block_run(
    run: RunSnapshot, option: FixOption, plan: BlockPlan, arm: Arm, setup: TrialSetup
) -> BlockRun | None:
    """Run the training with the blocks of ``plan``, and with its first steps as in ``arm``; None
    where it cannot be run that way, or its blocks are not whole."""
    override = option.override and replace(
        option.override, blocks=Blocks(WARM_UP, plan.steps, begins_changed=arm is Arm.AFTER)
    )
    launch = rerun_launch(run, replace(option, override=override))
    try:
        measured = setup.measure(arm, launch)
    except TrialError:
        return None
    timed = _block_runs(measured, facts_of(measured.root), plan)
    return BlockRun(measured, timed) if len(timed) == 2 * plan.pairs else None


def _block_runs(run: TrialRun, facts: Facts, plan: BlockPlan) -> tuple[TrialRun, ...]:
    """The blocks of a run whose length its steps show."""
    timed = []
    for block in blocks(facts)[: 2 * plan.pairs]:
        step_ns = mean_step(facts, block, plan.settling)
        if step_ns is not None:
            arm = Arm.AFTER if block.is_changed else Arm.BEFORE
            timed.append(TrialRun(arm, run.root, step_ns))
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
    return (int((rows["start"] + rows["duration"])[-1]) - start) // len(training)


# A switch can flip while the training goes on, and two blocks of one run differ by less than two
# runs do: it takes two runs of some seconds in place of thirteen. Every other run begins changed,
# so that the first losses of both ways can be compared.


def block_pairs(
    run: RunSnapshot, option: FixOption, plan: BlockPlan, setup: TrialSetup, most_pairs: int
) -> Iterator[Progress]:
    """Try ``option`` by the blocks of ``plan``, and yield how things stand after each pair.

    Ends with the first verdict that is one, after ``most_pairs``, or where a run cannot be made
    that way: pairs of runs then have to tell."""
    restore_all(setup.directory)
    runs: list[TrialRun] = []
    pairs: list[Pair] = []
    # Shares by which blocks of the same arm differ, one for each run.
    floors: list[float] = []
    for arm in cycle(Arm):
        setup.began(NextRun(Purpose.BLOCKS, len(pairs) + 1, arm))
        measured = block_run(run, option, plan, arm, setup)
        if measured is None:
            return
        runs.append(measured.run)
        floor = noise(list(measured.blocks))
        floors += [] if floor is None else [floor]
        has_losses = len(runs) == len(Arm) and all(run.losses for run in runs)
        if has_losses and _losses_of(runs, option.risks).agreement is Agreement.NOT_CHECKED:
            # One run without the change does not tell whether they repeat.
            short = replace(setup, steps=WARM_UP + FEWEST_STEPS)
            again = NextRun(Purpose.LOSSES, len(pairs) + 1)
            runs.append(short.measure(Arm.BEFORE, repeat_launch(run), again))
        for pair in measured.pairs:
            pairs.append(pair)
            checked = _losses_of(runs, option.risks)
            progress = _progress(pairs, runs, median(floors) if floors else None, checked)
            yield replace(progress, block_steps=plan.steps)
            # One run begins one way only: its losses say nothing of the other.
            is_whole = len(runs) >= len(Arm)
            if len(pairs) >= most_pairs or (is_whole and progress.verdict.outcome.is_decided):
                return


PLAIN = 2.0
"""Numbers with steps so many times as long are not tried again; 1.55x came by chance."""

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
    choices = tuple(count for count in counts if (loader.num_workers or 0) < count <= most)
    return choices if len(choices) > 1 else ()


def counts_for(facts: Facts, option: FixOption) -> tuple[int, ...]:
    """The numbers of workers to try before pairs of ``option``: none where it is another fix, or
    they were measured before."""
    is_measured = option.fix != loader_workers.id or measured_workers(facts) is not None
    return () if is_measured or option.override is None else counts_to_try(facts)


def with_best_workers(
    run: RunSnapshot, option: FixOption, setup: TrialSetup
) -> Generator[Progress, None, tuple[FixOption, tuple[CurvePoint, ...]]]:
    """``option``, for ``loader-workers`` with the number of workers that was measured to be best,
    and the steps that tell.

    Yields the steps so far: of the present number and of more, until twice as many bring nothing
    more, and then of all of them once more in the opposite order, so that steady changes of the
    machine cancel out, but what is plainly slower. Those of more are kept in ``run``'s directory.
    """
    facts = facts_of(run.root)
    counts, loader = counts_for(facts, option), training_loader(facts)
    if not counts or loader is None:
        return option, ()
    setup = replace(setup, steps=steps_of_each(facts, SECONDS))
    present, is_back = loader.num_workers or 0, False
    ahead, times = [present, *counts], dict[int, list[int]]()
    while ahead:
        count = ahead.pop(0)
        tried = with_workers(facts, count)
        if tried is None or tried.override is None:
            return option, ()
        launch = repeat_launch(run) if count == present else rerun_launch(run, tried)
        arm = Arm.BEFORE if count == present else Arm.AFTER
        further = len(ahead) + (0 if is_back else len(ahead) + len(times) + 1)
        what = NextRun(Purpose.WORKERS, workers=count, further=further)
        times.setdefault(count, []).append(setup.measure(arm, launch, what).step_ns)
        points = tuple(CurvePoint(number, round(fmean(each))) for number, each in times.items())
        yield replace(NO_PAIRS, workers=points)
        if not is_back and (not ahead or WorkerCurve(points).is_level):
            longest = PLAIN * min(point.step_ns for point in points)
            close = [point.workers for point in reversed(points) if point.step_ns < longest]
            is_back, ahead = True, close if len(close) > 1 else []
    curve = WorkerCurve(points[1:])
    write_worker_curve(run.root, curve)
    return (curve.best and with_workers(facts, curve.best)) or option, points


FEWEST_RUNS, MOST_PAIRS = runs_of(LOOKS[0][0]), LOOKS[-1][0]


def trial(
    run: RunSnapshot,
    option: FixOption,
    setup: TrialSetup,
    most_pairs: int = MOST_PAIRS,
    earlier: Progress = NO_PAIRS,
) -> Iterator[Progress]:
    """Try ``option`` on the training of ``run``, and yield how things stand after each pair, behind
    those of an ``earlier`` trial of the same.

    Ends with the first verdict that is one, or after ``most_pairs``. The first run of all is not
    counted: it finds files and caches cold. Where the fix is a number of loader workers, several
    are run first, and the best is tried; where it is a switch of torch, blocks within runs are
    paired first, and runs only where those do not tell.

    Raises:
        TrialError: a run failed or is too short to judge.
        TrialCancelledError: ``cancelled`` was set.
        OSError: a run cannot be started.
    """
    plan = block_plan(facts_of(run.root), option, setup.steps)
    if plan is not None:
        progress = NO_PAIRS
        for progress in block_pairs(run, option, plan, setup, most_pairs):
            yield progress
        if progress.verdict.outcome.is_decided:
            return
    tried, points = yield from with_best_workers(run, option, setup)
    if points:
        yield replace(NO_PAIRS, workers=points, option=tried)
    before, after = repeat_launch(run, tried), rerun_launch(run, tried)
    for progress in paired_runs(before, after, setup, most_pairs, tried.risks, earlier.pairs):
        yield replace(progress, workers=points, option=tried)


def paired_runs(
    before: Launch,
    after: Launch,
    setup: TrialSetup,
    most_pairs: int = MOST_PAIRS,
    risks: Sequence[Risk] = (),
    earlier: Sequence[Pair] = (),
) -> Iterator[Progress]:
    """Hold ``after`` against ``before``, two launches of one training, as ``trial`` does.

    ``risks`` say by what losses may differ."""
    launches = {Arm.BEFORE: before, Arm.AFTER: after}
    restore_all(setup.directory)
    first = setup.measure(Arm.BEFORE, before, NextRun(Purpose.WARM_UP))
    pairs: list[Pair] = []
    runs: list[TrialRun] = []
    for number, arms in enumerate(islice(order(), most_pairs), 1):
        by_arm: dict[Arm, TrialRun] = {}
        for pair in earlier[number - 1 : number]:
            by_arm = {Arm.BEFORE: pair.before, Arm.AFTER: pair.after}
        for arm in arms:
            if arm not in by_arm:
                by_arm[arm] = setup.measure(arm, launches[arm], NextRun(Purpose.PAIR, number, arm))
        pairs.append(Pair(by_arm[Arm.BEFORE], by_arm[Arm.AFTER]))
        runs += [by_arm[arm] for arm in arms]
        checked = _losses_of((first, *runs), risks)
        progress = replace(_progress(pairs, runs, noise(runs), checked), costs=costs_of(runs))
        yield progress
        if progress.verdict.outcome.is_decided:
            return


def _losses_of(runs: Sequence[TrialRun], risks: Sequence[Risk]) -> LossCheck:
    before, after = ([run.losses for run in runs if run.arm is arm] for arm in Arm)
    return check_losses(before, after, risks)


def _progress(
    pairs: Sequence[Pair], runs: Sequence[TrialRun], floor: float | None, checked: LossCheck
) -> Progress:
    """How things stand after the last of ``pairs``, which are of ``runs`` or of blocks in them."""
    # Blocks are of one run.
    sides = [
        facts_of(root) for root in dict.fromkeys((pairs[-1].before.root, pairs[-1].after.root))
    ]
    before, after = sides[0], sides[-1]
    if why := next(filter(None, map(missed, reversed(sides))), ""):
        verdict = TrialVerdict(Outcome.NO_EFFECT, f"no effect: {why}")
    elif why := other_work(conditions(before), conditions(after)) or (
        checked.sentence if checked.agreement is Agreement.DIFFER else ""
    ):
        so_far = speed_text(median(pair.ratio for pair in pairs))
        text = f"{so_far} so far, not comparable: {why}"
        verdict = TrialVerdict(Outcome.NOT_COMPARABLE, text)
    else:
        disturbed = any(run.disturbed for run in runs)
        verdict = judge([pair.ratio for pair in pairs], floor or 0.0, disturbed=disturbed)
    changes = in_force_changes(in_force(before), in_force(after))
    notes = (*disturbance_notes(runs), *verdict.notes)
    return Progress(tuple(pairs), verdict, floor, changes, notes, checked)
