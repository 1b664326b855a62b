"""Which rank comes last to the collectives step by step, where it is not always the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.facts.ranks.communication import MOST_RANKS
from perftui.facts.ranks.rank_table import WAITS_IN
from perftui.facts.step.steps import steady_rows
from perftui.run.columns import PHASES

FEWEST_STEPS = 20
"""Steps common to all ranks, from which it is reported how often each rank comes last."""

OWN_PARTS = tuple(phase for phase in PHASES if phase != WAITS_IN)
"""Phases in which a rank waits for no other."""


@dataclass(frozen=True)
class LateRanks:
    """Steps that several ranks have made together; times in ns of the mean one."""

    steps: int
    ranks: int
    lost: int
    """By how much the own time of whoever is last exceeds that of the rank that is slowest on the
    whole: what a step would be shorter if each rank took its mean every time."""
    often: int
    """The rank that is last most often."""
    often_share: float
    """Share of the steps in which it is."""
    part: str
    """The phase that is longer by most on whoever is last."""
    part_lag: int
    apart: int
    """By how much the same step differs in length from rank to rank, in the median: little where
    they wait for each other."""


@fact
def late_ranks(facts: Facts) -> LateRanks:
    """By the steady steps that all ranks still keep.

    Raises:
        NotApplicableError: one process trains.
        UnknownError: too few of their steps can be laid side by side.
    """
    run = facts.run
    places = sorted({one.place for one in run.ranks})[:MOST_RANKS] if run else []
    if run is None or run.world < 2 or len(places) < 2:
        raise NotApplicableError
    tables = [steady_rows(facts.of_rank(place)) for place in places]
    if not all(len(table) for table in tables):
        raise UnknownError("not all ranks have steady steps")
    common = reduce(np.intersect1d, (table["index"] for table in tables))
    if len(common) < FEWEST_STEPS:
        raise UnknownError(f"{len(common)} of {FEWEST_STEPS} steps of all ranks so far")
    # Steps by rows, ranks by columns.
    picked = [table.where(np.isin(table["index"], common)) for table in tables]
    durations = np.stack([table["duration"] for table in picked], axis=1)
    parts = {part: np.stack([table[part] for table in picked], axis=1) for part in OWN_PARTS}
    own = sum(parts.values(), np.zeros_like(durations))
    last = own.argmax(axis=1)
    at = np.arange(len(common))
    counts = np.bincount(last, minlength=len(places))
    lags = {
        part: float((times[at, last] - np.median(times, axis=1)).mean())
        for part, times in parts.items()
    }
    part = max(lags, key=lambda name: lags[name])
    return LateRanks(
        steps=len(common),
        ranks=len(places),
        lost=max(round(float(own.max(axis=1).mean() - own.mean(axis=0).max())), 0),
        often=places[int(counts.argmax())],
        often_share=float(counts.max()) / len(common),
        part=part,
        part_lag=max(round(lags[part]), 0),
        apart=int(np.median(durations.max(axis=1) - durations.min(axis=1))),
    )
