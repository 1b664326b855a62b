"""Where the training's main thread was, by line of the user's code."""

from __future__ import annotations

import numpy as np

from perftui.analysis.intervals import union
from perftui.facts.fact import Facts, fact
from perftui.facts.source.lines import FEWEST_SAMPLES, LinesByTime, lines_by_time
from perftui.facts.step.steps import run_is_over, steady_rows, steady_step, step_kind
from perftui.run.stack_samples import COLLATE, FETCH, stack_rate_of
from perftui.run.table import Table
from perftui.trace.model import Int64


@fact
def stack_samples(facts: Facts) -> tuple[Table, Table]:
    """Samples of the main thread's stack, by ``STACK_COLUMNS``: those that py-spy took from
    outside, and those that the agent took in windows from inside."""
    if facts.run is None or facts.rank is None:
        return Table(), Table()
    outside = facts.rank.stacks
    if "every" not in outside and len(outside):
        # An older run has one rate a second for all samples.
        every = 1_000_000_000 // max(stack_rate_of(facts.run.manifest.profile), 1)
        column: Int64 = np.full(len(outside), every, dtype=np.int64)
        outside = Table(outside.columns, {**outside.values, "every": column})
    return outside, facts.rank.window_stacks


@fact
def steady_held(facts: Facts) -> Int64:
    """The time within the steady steps that each sample from outside stands for, ns; all of it in
    a run that has ended without any."""
    outside, _ = stack_samples(facts)
    if len(outside) and is_without_steps(facts):
        return np.asarray(outside["held"], np.int64)
    return _held(outside, steady_rows(facts))


@fact
def is_without_steps(facts: Facts) -> bool:
    """Whether the run has ended without steps that could be judged."""
    return run_is_over(facts) and steady_step.or_none(facts) is None


@fact
def main_thread(facts: Facts) -> LinesByTime | None:
    """Where the main thread was over the steady steps; None with too few samples."""
    outside, _ = stack_samples(facts)
    return _enough(outside, steady_held(facts))


@fact
def window_thread(facts: Facts) -> LinesByTime | None:
    """Where it was over the steps in which a window was open, or which follow one, seen from
    inside; None with too few samples, and where it was seen from outside."""
    (outside, inside), steps = stack_samples(facts), facts.steps
    if len(outside) or "profiled" not in steps:
        return None
    profiled = steps.where((steps["profiled"] != 0) & (steps["kind"] == step_kind(facts)))
    return _enough(inside, _held(inside, profiled))


@fact
def main_batches(facts: Facts) -> LinesByTime | None:
    """Where the main thread was, over the steady steps, while it made batches itself; None where
    too few samples tell."""
    outside, _ = stack_samples(facts)
    if "stage" not in outside:
        return None
    making = np.isin(outside["stage"], (FETCH, COLLATE))
    return _enough(outside, np.where(making, steady_held(facts), 0))


def _held(stacks: Table, steps: Table) -> Int64:
    """The time within ``steps`` that each sample stands for, ns."""
    if not len(stacks) or not len(steps):
        return np.zeros(len(stacks), dtype=np.int64)
    during = union(steps["start"], steps["start"] + steps["duration"])
    return during.within(stacks["time"], stacks["time"] + stacks["held"])


def _enough(stacks: Table, held: Int64) -> LinesByTime | None:
    found = lines_by_time(stacks, held)
    return found if found.samples >= FEWEST_SAMPLES else None
