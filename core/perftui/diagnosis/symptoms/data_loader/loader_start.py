"""Each epoch starts the data loader, and its workers, anew."""

from __future__ import annotations

import numpy as np

from perftui import format as fmt
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule, step_figures
from perftui.diagnosis.symptoms.data_loader.input_wait import worker_figures
from perftui.facts.data_loader.batch_place import asking_place, asks_loader, loader_place
from perftui.facts.data_loader.input_wait import better_without_workers
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.data_loader.loader_work import loader_starts
from perftui.facts.fact import Facts, fact
from perftui.facts.source.lines import FEWEST_SAMPLES, lines_by_time, stack_samples, steady_held
from perftui.facts.step.steps import steady_step, step_breakdown

_ENDING = "__del__"
"""Method of an iterator that goes: it waits for its workers to end."""

MOSTLY = 0.5
"""Share of the script's own code that the end of a loader takes at least to be distinguished."""


@fact
def loader_end(facts: Facts) -> int:
    """ns of the mean step that ending loaders take, all of it in ``other``; 0 where that is less
    than ``MOSTLY`` of ``other``, or there are too few samples."""
    (outside, _), step = stack_samples(facts), step_breakdown(facts)
    if step is None or "via" not in outside or not len(outside):
        return 0
    held = steady_held(facts)
    whole = lines_by_time(outside, held)
    if whole.samples < FEWEST_SAMPLES:
        return 0
    ends = np.array([str(via).endswith(_ENDING) for via in outside["via"]], dtype=np.bool_)
    ends &= asks_loader(outside, held)
    found = round(int(held[ends].sum()) / whole.covered * step.mean)
    own = step.part("other")
    return min(found, own) if found >= MOSTLY * own else 0


EACH_STEP = 0.5
"""Starts a step, from which on it is not epochs that begin."""


def _lost(facts: Facts) -> Lost | None:
    """Starts after the first. A trace is not asked: a window of some steps holds no two epochs."""
    if facts.run is None:
        return None
    step, again, feeds = steady_step(facts), loader_starts(facts), training_loader(facts)
    if again is None:
        return None
    ending = loader_end(facts)
    cost = again.per_step + ending
    what = "Starting the loader again" + (", and ending its workers," if ending else "")
    each_step = again.count >= EACH_STEP * step.count
    none_better = better_without_workers(facts, otherwise=step.mean - cost)
    return Lost(
        cost,
        step,
        f"{what} takes {step.part_of(cost)}{_because(feeds, each_step)}{none_better}.",
        (
            Figure("mean start", again.mean, "ns"),
            Figure("starts after the first", again.count, "count"),
            *step_figures(step),
            *worker_figures(facts),
        ),
        label="starting the loader again",
        parts=("loader_start", "other") if ending else (),
        place=asking_place(facts) if each_step or not _starts_anew(feeds) else loader_place(facts),
        fixes=(
            *(("loader-no-workers",) if none_better else ()),
            *(("loader-persistent",) if _starts_anew(feeds) and not each_step else ()),
        ),
    )


def _starts_anew(feeds: LoaderFacts | None) -> bool:
    """Whether the loader is known to start its workers anew with each epoch."""
    return feeds is not None and bool(feeds.num_workers) and feeds.persistent_workers is False


def _because(feeds: LoaderFacts | None, each_step: bool) -> str:
    """The cause, where the loader's arguments are known and show it."""
    if each_step:
        return ": every step starts a new epoch, as next(iter(loader)) in a loop does"
    if feeds is None or not feeds.num_workers:
        return ""
    if feeds.persistent_workers:
        return (
            ": it is created again for each epoch, so its workers cannot stay, or they take long "
            "to start the next epoch"
        )
    if not _starts_anew(feeds):
        return ""
    several = fmt.several(feeds.num_workers, "worker")
    verb = "starts" if feeds.num_workers == 1 else "start"
    return f": {several} {verb} again with each epoch, unless persistent_workers=True keeps them"


LOADER_START = Rule(
    id="loader-start",
    when="the loader restarts for each epoch",
    explanation=(
        "Each epoch starts new worker processes, which import the script, open the dataset and "
        "fill their queue before the first batch is ready. persistent_workers=True keeps them "
        "alive, if the loader is kept too: create the loader once and one iterator per epoch."
    ),
    lost=_lost,
    limits=Limits(0.05, 0.20, "As certainly avoidable as a loader without workers."),
    claims=Claim(phase="loader_start"),
    fixes=("loader-persistent", "loader-no-workers"),
    answer="keep the workers: persistent_workers=True, one loader for all epochs",
)
