"""Runs a training as it is and with one side left out, in turns, to see what each costs."""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from perftui.experiments.files_of_trials import restore_all
from perftui.experiments.rerun import missed, repeat_launch
from perftui.experiments.trial_runs import (
    Arm,
    TrialError,
    TrialSetup,
    facts_of,
    run_to_end,
    shortened,
    steps_of_each,
)
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.fact import Facts, notes_of
from perftui.facts.step.steps import micro_batches
from perftui.fixes.workers import with_workers
from perftui.recorder.launch import Launch
from perftui.run.manifest import Override
from perftui.run.reader import RunSnapshot

BATCHES = 8
"""Batches that are given again and again: enough to differ, few enough to be made in the warm-up
and to stay in memory."""

LOADER_SECONDS = 3.0
"""Seconds for which a loader is timed alone."""


class Side(str, enum.Enum):
    """The part of a training that an experiment leaves out."""

    INPUT = "input"
    TRAINING = "training"
    WORKER = "worker"
    OUTPUT = "output"


@dataclass(frozen=True)
class Isolated:
    """Runs with one side of the training left out, so far."""

    side: Side
    what: str
    """What is done, in a few words."""
    overrides: tuple[Override, ...] = ()
    times_batches: bool = False
    """Whether it times the loader alone, and no steps."""
    problem: str = ""
    """Why it has no time, or cannot be made here."""
    times: tuple[int, ...] = ()
    """ns of a step; of a loader alone, of a step's batches."""

    @property
    def step_ns(self) -> int | None:
        """The middle of its runs; None before the first."""
        return round(median(self.times)) if self.times else None


def experiments(facts: Facts) -> tuple[Isolated, ...]:
    """All experiments for the training of a run, before the first."""
    loader = training_loader(facts)
    none = "" if loader else "no DataLoader feeds the training"
    alone = _isolate(loader, {"loader_alone": LOADER_SECONDS})
    return (
        Isolated(
            Side.INPUT,
            f"with the first {BATCHES} batches again and again",
            (_isolate(loader, {"repeated_batches": BATCHES}),),
            problem=none,
        ),
        Isolated(Side.TRAINING, "the loader alone", (alone,), True, none),
        _one_worker(facts, loader, alone, none),
        Isolated(
            Side.OUTPUT,
            "without printing, logging and saving",
            (Override("isolate", {"output": False}),),
        ),
    )


def _isolate(loader: LoaderFacts | None, arguments: Mapping[str, Any]) -> Override:
    feeding = loader or LoaderFacts()
    return Override("isolate", dict(arguments), feeding.file, feeding.line)


def _one_worker(facts: Facts, loader: LoaderFacts | None, alone: Override, none: str) -> Isolated:
    what = "the loader alone, with one worker"
    if loader is None:
        return Isolated(Side.WORKER, what, problem=none)
    if loader.num_workers == 1:
        return Isolated(Side.WORKER, what, problem="it already has one worker")
    option = with_workers(facts, 1)
    if option is None or option.override is None:
        return Isolated(Side.WORKER, what, problem=option.why_not if option else none)
    return Isolated(Side.WORKER, what, (option.override, alone), True)


ROUNDS = 3
"""Runs of each experiment: their median counts, and their range is shown."""

SECONDS = 5.0
"""Steady time of each run."""


@dataclass(frozen=True)
class Isolation:
    """The training as it is, and each of its sides."""

    as_it_is: tuple[int, ...] = ()
    """Steps of its runs, ns."""
    sides: tuple[Isolated, ...] = ()
    newest: str = ""
    """Name of the run that has just ended."""

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return len(self.as_it_is) + sum(len(side.times) for side in self.sides)

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
    setup = TrialSetup(directory, steps or steps_of_each(facts, SECONDS), cancelled)
    before, batches = repeat_launch(run), micro_batches(facts) or 1
    restore_all(directory)
    setup.measure(Arm.BEFORE, before)
    result = Isolation(sides=experiments(facts))
    for _ in range(ROUNDS):
        step = setup.measure(Arm.BEFORE, before).step_ns
        result = replace(result, as_it_is=(*result.as_it_is, step), newest="as it is")
        yield result
        for at, side in enumerate(result.sides):
            if not side.problem:
                sides = list(result.sides)
                sides[at] = _with_run(side, before, batches, setup)
                result = replace(result, sides=tuple(sides), newest=side.what)
                yield result


def _with_run(side: Isolated, before: Launch, batches: int, setup: TrialSetup) -> Isolated:
    """``side`` with one more run."""
    launch = replace(before, overrides=(*before.overrides, *side.overrides), name=side.what)
    try:
        if side.times_batches:
            time = _loader_time(launch, setup) * batches
        else:
            done = setup.measure(Arm.AFTER, launch)
            if why := missed(facts_of(done.root)):
                return replace(side, problem=why)
            time = done.step_ns
    except TrialError as error:
        return replace(side, problem=str(error))
    return replace(side, times=(*side.times, round(time)))


def _loader_time(launch: Launch, setup: TrialSetup) -> float:
    """ns that the loader takes for a batch when nothing else is done."""
    root, _ = run_to_end(shortened(launch, setup.directory, setup.steps), setup.cancelled)
    facts = facts_of(root)
    for note in notes_of(facts.events, "loader_alone"):
        batches, taken = note.get("batches"), note.get("ns")
        if isinstance(batches, int) and isinstance(taken, int) and batches:
            return taken / batches
    raise TrialError(missed(facts) or f"the loader delivered no batches to time: see {root}")
