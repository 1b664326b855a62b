"""What the evidence cannot say, in words."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.facts.fact import Facts, fact
from perftui.facts.problems import problems
from perftui.facts.step_kind import TRAIN, WORK, count_of
from perftui.facts.steps import step_kind
from perftui.run.reader import RankSnapshot, RunSnapshot
from perftui.run.stack_samples import NO_STACKS

MUCH_ELSE = 0.1
"""Share of a training's time from which other steps (evaluation, generation) are mentioned: what is
said of the training steps is then not what the run waits for. Reinforcement learning mostly
generates."""


@fact
def notes(facts: Facts) -> tuple[str, ...]:
    """Of the trace and of the run."""
    of_trace = facts.analysis.notes if facts.analysis else ()
    if facts.run is None:
        return of_trace
    if facts.rank is None:
        return *of_trace, *problems(facts.run)
    return *of_trace, *_run_notes(facts.run, facts.rank, step_kind(facts))


def _run_notes(run: RunSnapshot, shown: RankSnapshot, judged: str) -> Iterator[str]:
    if judged != TRAIN:
        yield f"no training step was recorded: the steps are those of {WORK[judged]}"
    else:
        yield from _other_steps(shown)
    if run.world > 1:
        yield f"{run.world} training processes: the diagnosis is that of rank {shown.place}"
    trainings = run.trainings(shown.place)
    if len(trainings) > 1:
        number = f"number {trainings.index(shown) + 1}"
        yield f"{len(trainings)} trainings ran one after the other: the diagnosis is of {number}"
    if run.manifest.profile.get(NO_STACKS):
        yield str(run.manifest.profile[NO_STACKS])
    yield from problems(run)


def _other_steps(shown: RankSnapshot) -> Iterator[str]:
    """What the steps took that train nothing, if that is much."""
    steps, downsampled = shown.steps, shown.downsampled
    if not len(steps):
        return
    training = int(steps["duration"][steps["kind"] == TRAIN].sum())
    training += int(downsampled.of(TRAIN).of("duration").total)
    whole = int(steps["duration"].sum()) + int(downsampled.of().of("duration").total)
    other = whole - training
    if other > MUCH_ELSE * whole:
        count = len(steps) + downsampled.of().rows - count_of(TRAIN, steps, downsampled)
        yield (
            f"{fmt.percent(other / whole)} of the time of all steps is that of "
            f"{fmt.several(count, 'step')} without a backward pass (evaluation, generation), "
            f"{fmt.duration(other)}: the diagnosis is of the training steps"
        )
