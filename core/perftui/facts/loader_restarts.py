"""What the training spends on starting its loader again, epoch after epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.facts.fact import Facts, fact
from perftui.facts.steady import Mask
from perftui.facts.steps import steady_mask, step_kind
from perftui.run.aggregates import NO_AGGREGATES, Aggregates
from perftui.run.table import Table


@dataclass(frozen=True)
class Restarts:
    """The starts after the first, as far as they lie in steady steps."""

    count: int
    per_step: int
    """Their time spread over all steady steps, ns."""
    mean: int
    """Mean of one, ns."""


def restarts(
    steps: Table, mask: Mask, downsampled: Aggregates = NO_AGGREGATES, kind: str = "train"
) -> Restarts | None:
    """Starts of a loader in the steps that ``mask`` selects; the first of the run is no restart.

    ``kind`` is that of these steps. ``downsampled`` are the steps that are no longer kept as rows.

    None where there is none.
    """
    if "loader_start" not in steps or not mask.any():
        return None
    started = (steps["kind"] == kind) & (steps["loader_start"] > 0)
    started[: int(np.argmax(started)) + 1] = False
    again = started & mask
    kept = downsampled.steady(kind)
    count = int(again.sum()) + kept.of("loader_start").above_zero
    if not count:
        return None
    whole = int(steps["loader_start"][again].sum()) + int(kept.of("loader_start").total)
    return Restarts(count, whole // (int(mask.sum()) + kept.rows), whole // count)


@fact
def loader_starts(facts: Facts) -> Restarts | None:
    """What starting a loader again took; None where it was started once or not at all."""
    if facts.rank is None:
        return None
    return restarts(facts.rank.steps, steady_mask(facts), facts.rank.downsampled, step_kind(facts))
