"""Where the workers of a data loader were, by line of the user's code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts, fact
from perftui.facts.source.lines import FEWEST_SAMPLES, LinesByTime, lines_by_time
from perftui.facts.step.steps import steady_span
from perftui.run.columns import COLLATE, FETCH, WAIT


@dataclass(frozen=True)
class WorkerLines:
    """Lines by the time in which workers make batches, and how much of their time that is."""

    making: LinesByTime
    busy: float
    """Share of their time in which they make batches, as the samples have it, 0 to 1."""
    collate: float
    """Share of the time of making batches that the collate function takes, 0 to 1."""


@fact
def loader_lines(facts: Facts) -> WorkerLines | None:
    """Where the loader's workers were over the steady steps; None where fewer than
    ``FEWEST_SAMPLES`` found them making a batch."""
    during, feeds = steady_span(facts), training_loader(facts)
    if facts.rank is None or feeds is None or during is None:
        return None
    stacks = facts.rank.worker_stacks
    if "loader" not in stacks or not len(stacks):
        return None
    begin = np.maximum(stacks["time"], during[0])
    end = np.minimum(stacks["time"] + stacks["held"], during[1])
    serves = np.isin(stacks["loader"], np.array(feeds.numbers, dtype=np.int64))
    held = np.where(serves, np.maximum(end - begin, 0), 0)
    stage = stacks["stage"]
    collating = np.where(stage == COLLATE, held, 0)
    making = np.where(stage == FETCH, held, collating)
    known = making + np.where(stage == WAIT, held, 0)
    found = lines_by_time(stacks, making)
    if found.samples < FEWEST_SAMPLES:
        return None
    return WorkerLines(
        found,
        busy=found.covered / int(known.sum()),
        collate=int(collating.sum()) / found.covered,
    )
