"""Where the training's main thread was, by line of the user's code."""

from __future__ import annotations

import numpy as np

from perftui.analysis.intervals import union
from perftui.facts.fact import Facts, fact
from perftui.facts.lines import FEWEST_LOOKS, LinesByTime, lines_by_time, looks_at_main
from perftui.facts.steady import Mask
from perftui.facts.steps import steady_mask, step_kind
from perftui.run.stack_samples import COLLATE, FETCH
from perftui.run.table import Table
from perftui.trace.model import Int64


@fact
def stack_samples(facts: Facts) -> tuple[Table, Table]:
    """Samples of the main thread's stack, by ``STACK_COLUMNS``: those that py-spy took from
    outside, and those that the agent took in windows from inside."""
    if facts.run is None or facts.rank is None:
        return Table(), Table()
    return looks_at_main(facts.run, facts.rank)


@fact
def main_thread(facts: Facts) -> LinesByTime | None:
    """Where the main thread was over the steady steps; None where too few samples tell."""
    if facts.rank is None:
        return None
    return thread_over(stack_samples(facts)[0], facts.rank.steps, steady_mask(facts))


@fact
def window_thread(facts: Facts) -> LinesByTime | None:
    """Where it was over the profiled steps, seen from inside; None where too few samples tell, and
    where it was seen from outside."""
    outside, inside = stack_samples(facts)
    if facts.rank is None or len(outside):
        return None
    return thread_over(inside, facts.rank.steps, _profiled(facts.rank.steps, step_kind(facts)))


@fact
def main_batches(facts: Facts) -> LinesByTime | None:
    """Where the main thread was, over the steady steps, while it made batches itself; None where
    too few samples tell."""
    if facts.rank is None:
        return None
    return _making_batches(stack_samples(facts)[0], facts.rank.steps, steady_mask(facts))


def thread_over(stacks: Table, steps: Table, mask: Mask) -> LinesByTime | None:
    """Over the ``steps`` that ``mask`` selects; None where fewer than ``FEWEST_LOOKS`` saw them."""
    return _enough(stacks, _held(stacks, steps, mask))


def _profiled(steps: Table, kind: str) -> Mask:
    """The steps of ``kind`` in which a window was open, or which follow one."""
    if "profiled" not in steps:
        return np.zeros(len(steps), dtype=np.bool_)
    chosen: Mask = (steps["profiled"] != 0) & (steps["kind"] == kind)
    return chosen


def _making_batches(stacks: Table, steps: Table, mask: Mask) -> LinesByTime | None:
    """``thread_over``, of the time in which the thread makes batches itself."""
    if "stage" not in stacks:
        return None
    making = np.isin(stacks["stage"], (FETCH, COLLATE))
    return _enough(stacks, np.where(making, _held(stacks, steps, mask), 0))


def _held(stacks: Table, steps: Table, mask: Mask) -> Int64:
    if not len(stacks) or not mask.any():
        return np.zeros(len(stacks), dtype=np.int64)
    chosen = steps.where(mask)
    during = union(chosen["start"], chosen["start"] + chosen["duration"])
    return during.within(stacks["time"], stacks["time"] + stacks["held"])


def _enough(stacks: Table, held: Int64) -> LinesByTime | None:
    found = lines_by_time(stacks, held)
    return found if found.looks >= FEWEST_LOOKS else None
