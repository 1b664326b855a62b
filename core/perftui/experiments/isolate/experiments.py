"""The experiments: what each leaves out, and what that shows."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.fact import Facts
from perftui.fixes.workers import with_workers
from perftui.run.manifest import Override

BATCHES = 8
"""Batches that are given again and again: enough to differ, few enough to be made in the warm-up
and to stay in memory."""

LOADER_SECONDS = 3.0
"""For which a loader is timed alone."""


class Side(str, enum.Enum):
    """The part of a training that an experiment leaves out."""

    INPUT = "input"
    TRAINING = "training"
    WORKER = "worker"
    OUTPUT = "output"


@dataclass(frozen=True)
class Experiment:
    """A run with one side of the training left out."""

    side: Side
    what: str
    """What is done, in a few words."""
    overrides: tuple[Override, ...] = ()
    times_batches: bool = False
    """Whether it times the loader alone, and no steps."""
    why_not: str = ""
    """Why it cannot be made here; empty where it can."""


def experiments(facts: Facts) -> tuple[Experiment, ...]:
    """All of them, for the training of a run."""
    loader = training_loader(facts)
    none = "" if loader else "no DataLoader feeds the training"
    alone = _isolate(loader, {"loader_alone": LOADER_SECONDS})
    return (
        Experiment(
            Side.INPUT,
            f"with the first {BATCHES} batches again and again",
            (_isolate(loader, {"repeated_batches": BATCHES}),),
            why_not=none,
        ),
        Experiment(Side.TRAINING, "the loader alone", (alone,), True, none),
        _one_worker(facts, loader, alone, none),
        Experiment(
            Side.OUTPUT,
            "without printing, logging and saving",
            (Override("isolate", {"output": False}),),
        ),
    )


def _isolate(loader: LoaderFacts | None, arguments: Mapping[str, Any]) -> Override:
    known = loader or LoaderFacts()
    return Override("isolate", dict(arguments), known.file, known.line)


def _one_worker(facts: Facts, loader: LoaderFacts | None, alone: Override, none: str) -> Experiment:
    what = "the loader alone, with one worker"
    if loader is None:
        return Experiment(Side.WORKER, what, why_not=none)
    if loader.num_workers == 1:
        return Experiment(Side.WORKER, what, why_not="it already has one worker")
    option = with_workers(facts, 1)
    if option is None or option.override is None:
        return Experiment(Side.WORKER, what, why_not=option.why_not if option else none)
    return Experiment(Side.WORKER, what, (option.override, alone), True)
