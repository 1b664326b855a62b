"""The runs of a trial: in which order, how long, and what counts of each."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from statistics import median

from perftui.experiments.fewest_steps import FEWEST_STEPS
from perftui.facts.fact import Facts
from perftui.facts.peak_memory import PeakMemory
from perftui.facts.step.steps import steady_rows, steady_step
from perftui.recorder.launch import Launch

RUN_SECONDS = 5.0
"""Steady time of each run, where the training is long enough."""

WARM_UP = 30
"""Steps beside the steady ones: by experience the first few epochs of a loader, and compilation."""

LOSSES = 20
"""Steps of each run whose losses are compared: most fixes that go wrong show at once."""

MANY_STEPS = 2_000
"""Steady steps beyond which more of them tell nothing new."""


class Arm(str, enum.Enum):
    """The training as it is, and with the change."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class TrialRun:
    """One run of a trial that is over."""

    arm: Arm
    root: Path
    step_ns: int
    """Time of a training step, with whatever the script does between steps."""
    losses: tuple[float, ...] = ()
    """Of the first steps, each the sum over its backward passes."""
    start_ns: int | None = None
    """Until its steps were steady, without their time; None where that is not known."""
    memory: PeakMemory | None = None
    disturbed: str = ""
    """What disturbed it; empty where nothing is known to."""
    clock: float | None = None
    """Mean clock of its GPU over the highest; None where that was not sampled."""


def order() -> Iterator[tuple[Arm, Arm]]:
    """Pairs without end, every other one turned around: what changes steadily, such as the heat of
    the machine, then falls out."""
    for number in count():
        pair = (Arm.BEFORE, Arm.AFTER)
        yield pair if number % 2 == 0 else pair[::-1]


def runs_of(pairs: int, pairs_of_run: int | None = None) -> int:
    """How many runs so many pairs take: one before all others and two each, or fewer where a run
    has so many pairs of blocks."""
    return 1 + 2 * pairs if pairs_of_run is None else math.ceil(pairs / pairs_of_run)


def steps_of_each(run: Facts, seconds: float | None = None) -> int:
    """How many training steps the runs of a trial should make, by one that was recorded: so many
    ``seconds`` of steady ones, by default ``RUN_SECONDS``.

    Raises:
        UnknownError: it has too few steps to know.
    """
    steady = steady_step(run)
    wanted = round((seconds or RUN_SECONDS) * 1e9 / max(steady.mean, 1))
    return WARM_UP + min(max(wanted, FEWEST_STEPS), MANY_STEPS)


def shortened(launch: Launch, runs: Path, steps: int) -> Launch:
    """``launch`` for a trial: so many steps, without windows and samples, kept in ``runs``;
    what it writes to is given back by ``restore``."""
    options = replace(
        launch.options, profile=False, max_steps=steps, spares_files=True, losses=LOSSES
    )
    return replace(launch, runs=runs, options=options, stack_samples_per_second=0)


def step_time(run: Facts) -> int | None:
    """Time from one steady step to the next, ns, evaluation and saving between them included; None
    where there are too few steps."""
    rows = steady_rows(run)
    if len(rows) < FEWEST_STEPS:
        return None
    last = rows["start"].argmax()
    whole = int(rows["start"][last] + rows["duration"][last]) - int(rows["start"].min())
    return whole // len(rows)


def noise(runs: list[TrialRun]) -> float | None:
    """By how much two runs in turn of the same arm differ, the median, as a share; None where none
    were."""
    in_turn = [
        (one.step_ns, other.step_ns) for one, other in pairwise(runs) if one.arm is other.arm
    ]
    return spread(in_turn)


def spread(series: Iterable[Sequence[int]]) -> float | None:
    """By how much two in turn of the steps of each series differ, the median, as a share; None
    without any two."""
    alike = [abs(math.log(one / other)) for steps in series for one, other in pairwise(steps)]
    return math.expm1(median(alike)) if alike else None
