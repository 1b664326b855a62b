"""How long a training that still runs has come to no step, and where its threads are meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perftui.facts.fact import Facts, NotApplicableError, fact
from perftui.facts.samples import samples
from perftui.facts.source.lines import LineShare, lines_by_time
from perftui.facts.source.main_thread import stack_samples
from perftui.facts.step.steady import median
from perftui.facts.step.steps import MANY_STEPS, run_is_over
from perftui.run.table import Table

MOST_RANKS = 16
"""Ranks that are looked at."""


@dataclass(frozen=True)
class Silence:
    """From the end of the last step to the newest sample of anything; times in ns."""

    duration: int
    step: int
    """The number of the last step."""
    usual: int
    """Median of the steps before, of any kind."""
    longest: int
    """The longest step, or time between two, before."""
    since: int
    """When the last step ended, ns since the epoch."""


@fact
def silence(facts: Facts) -> Silence:
    """How long it is since the rank's last step.

    Raises:
        NotApplicableError: there is no run, or it is over, or has come to few steps: what its first
            ones compile or load may take minutes.
    """
    run, rank, steps = facts.run, facts.rank, facts.steps
    if run is None or rank is None or run_is_over(facts) or len(steps) < MANY_STEPS:
        raise NotApplicableError
    if run.trainings(rank.place)[-1:] != (rank,):
        # Another process is the rank by now, and has not come to a step.
        raise NotApplicableError
    end = steps["start"] + steps["duration"]
    last = int(end.max())
    between = np.diff(end) if len(end) > 1 else np.zeros(1, np.int64)
    outside, _ = stack_samples(facts)
    times = [_last(samples(facts), "time"), _newest(outside)]
    return Silence(
        duration=max(max(times) - last, 0),
        step=int(steps["index"][int(end.argmax())]),
        usual=round(median(steps["duration"])),
        longest=max(int(between.max()), int(steps["duration"].max())),
        since=last,
    )


@fact
def last_lines(facts: Facts) -> tuple[tuple[int, LineShare], ...]:
    """The ranks whose main threads were sampled since the last step, and where each was last."""
    return tuple(_lines(facts, silence(facts).since))


def _lines(facts: Facts, since: int) -> Iterator[tuple[int, LineShare]]:
    ranks = facts.run.ranks if facts.run else ()
    for place in sorted({each.place for each in ranks})[:MOST_RANKS]:
        stacks, _ = stack_samples(facts.of_rank(place))
        if not len(stacks) or _newest(stacks) <= since:
            continue
        at = int((stacks["time"] + stacks["held"]).argmax())
        held = np.zeros(len(stacks), np.int64)
        held[at] = max(int(stacks["held"][at]), 1)
        yield place, lines_by_time(stacks, held).lines[0]


def _newest(stacks: Table) -> int:
    return int((stacks["time"] + stacks["held"]).max()) if len(stacks) else 0


def _last(samples: Table, column: str) -> int:
    return int(samples[column].max()) if column in samples and len(samples) else 0
