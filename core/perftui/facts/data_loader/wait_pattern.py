"""How the waits for data come: in every step, in every n-th, or where an epoch begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.facts.fact import Facts, fact
from perftui.facts.step.steady import median
from perftui.facts.step.steps import steady_rows

FEWEST = 20
"""Steps below which no pattern is read into them."""

LONG = 0.5
"""Share of the mean wait: what is longer is one of the waits that come now and then."""

REGULAR = 0.4
"""Standard deviation of the steps from one long wait to the next, over their mean."""


@dataclass(frozen=True)
class WaitPattern:
    """How waits for the data loader recur, in the steady steps that are still kept."""

    mean: float
    p50: float
    p95: float
    """Waits, ns."""
    every: float
    """Steps from one long wait to the next, in the mean."""
    is_regular: bool
    """Whether those are about equally many each time."""
    at_epochs: float
    """Share of all waiting, beyond the usual step's, in steps that begin an epoch, 0 to 1."""
    epochs: int
    """How many of the steps begin one."""

    @property
    def is_bursty(self) -> bool:
        """Whether few steps wait long and most hardly at all."""
        return self.p95 >= 4 * self.p50 and self.p50 < LONG * self.mean

    @property
    def is_rare(self) -> bool:
        """Whether nearly all waiting is in fewer than one step of twenty."""
        return self.p95 < LONG * self.mean


@fact
def wait_pattern(facts: Facts) -> WaitPattern | None:
    """The pattern; None where too few steps were recorded."""
    rows = steady_rows(facts)
    if "input_wait" not in rows or len(rows) < FEWEST:
        return None
    waits = rows["input_wait"].astype(np.float64)
    mean, p50 = float(waits.mean()), median(waits)
    long = np.flatnonzero(waits > LONG * mean)
    between = np.diff(long)
    every = float(between.mean()) if len(between) else float(len(rows))
    begins = rows["loader_start"] > 0 if "loader_start" in rows else np.zeros(len(rows), bool)
    beyond = np.maximum(waits - p50, 0)
    return WaitPattern(
        mean,
        p50,
        float(np.sort(waits)[int(0.95 * (len(waits) - 1))]),
        every,
        len(between) > 2 and float(between.std()) <= REGULAR * every,
        float(beyond[begins].sum() / beyond.sum()) if beyond.any() else 0.0,
        int(begins.sum()),
    )
