"""Runs a training as it is and with one side left out, in turns."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from perftui.experiments.effect import missed
from perftui.experiments.isolate.experiments import Experiment, experiments
from perftui.experiments.rerun import repeat_launch
from perftui.experiments.trial.finished import TrialError, facts_of, finished
from perftui.experiments.trial.restore import restore_all
from perftui.experiments.trial.runs import Arm, shortened, steps_of_each
from perftui.experiments.trial.timed import measured
from perftui.facts.events import notes_of
from perftui.facts.step.steps import micro_batches
from perftui.recorder.launch import Launch
from perftui.run.reader import RunSnapshot

ROUNDS = 3
"""Runs of each: their middle counts, and how far they are apart is shown."""

SECONDS = 5.0
"""Steady time of each run."""


@dataclass(frozen=True)
class Isolated:
    """One experiment so far. Times are ns of a step; of a loader alone, of the batches of one."""

    experiment: Experiment
    times: tuple[int, ...] = ()
    problem: str = ""
    """Why there is no time of it."""

    @property
    def step_ns(self) -> int | None:
        """The middle of its runs; None before the first."""
        return round(median(self.times)) if self.times else None


@dataclass(frozen=True)
class Isolation:
    """The training as it is, and each of its sides."""

    as_it_is: tuple[int, ...] = ()
    """Steps of its runs, ns."""
    sides: tuple[Isolated, ...] = ()
    newest: str = ""
    """What the run was that has just ended."""

    @property
    def runs(self) -> int:
        """How many there were."""
        return len(self.as_it_is) + sum(len(one.times) for one in self.sides)

    @property
    def step_ns(self) -> int | None:
        """A step as it is: the middle of its runs; None before the first."""
        return round(median(self.as_it_is)) if self.as_it_is else None


def isolate(
    run: RunSnapshot, directory: Path, cancelled: threading.Event, steps: int | None = None
) -> Iterator[Isolation]:
    """Repeat the training of ``run`` with each side left out, and yield how things stand after
    each run of so many ``steps``, by default ``SECONDS`` of them.

    The first run of all is not counted: it finds files and caches cold. An experiment that cannot
    be made says why; the others go on.

    Raises:
        TrialError: the training itself fails, or is too short to judge.
        TrialCancelledError: ``cancelled`` was set.
        OSError: a run cannot be started.
        UnknownError: the run has too few steps to know how many are needed.
    """
    facts = facts_of(run.root)
    steps, batches = steps or steps_of_each(facts, SECONDS), micro_batches(facts) or 1
    before = shortened(repeat_launch(run), directory, steps)
    restore_all(directory)
    measured(Arm.BEFORE, before, cancelled)
    found = Isolation(sides=tuple(Isolated(one, (), one.why_not) for one in experiments(facts)))
    for _ in range(ROUNDS):
        step = measured(Arm.BEFORE, before, cancelled).step_ns
        found = replace(found, as_it_is=(*found.as_it_is, step), newest="as it is")
        yield found
        for at, side in enumerate(found.sides):
            if not side.problem:
                sides = list(found.sides)
                sides[at] = _with_run(side, before, batches, cancelled)
                found = replace(found, sides=tuple(sides), newest=side.experiment.what)
                yield found


def _with_run(side: Isolated, before: Launch, batches: int, cancelled: threading.Event) -> Isolated:
    """``side`` with one more run."""
    overrides = (*before.overrides, *side.experiment.overrides)
    launch = replace(before, overrides=overrides, name=side.experiment.what)
    try:
        if side.experiment.times_batches:
            time = _loader_time(launch, cancelled) * batches
        else:
            done = measured(Arm.AFTER, launch, cancelled)
            if why := missed(facts_of(done.root)):
                return replace(side, problem=why)
            time = done.step_ns
    except TrialError as error:
        return replace(side, problem=str(error))
    return replace(side, times=(*side.times, round(time)))


def _loader_time(launch: Launch, cancelled: threading.Event) -> float:
    """What the loader takes for a batch when nothing else is done, ns."""
    root, _ = finished(launch, cancelled)
    facts = facts_of(root)
    for note in notes_of(facts.events, "loader_alone"):
        batches, taken = note.get("batches"), note.get("ns")
        if isinstance(batches, int) and isinstance(taken, int) and batches:
            return taken / batches
    raise TrialError(missed(facts) or f"the loader delivered no batches to time: see {root}")
