"""By how much two runs of one program differ, and how many steps they need; loads no numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass

MANY_STEPS = 80
"""Steady steps from which on two runs of one program agree well."""

NOISE_MANY = 0.06
NOISE_FEW = 0.40
"""Median steps of two runs of one program differ by less than this in 95 % of cases:
exp(2 * sqrt(2) * s) - 1, where s is the standard deviation of the logarithm between runs, measured
as 0.02 from ``MANY_STEPS`` steps on and up to 0.12 on 40 or fewer. Steps of one run are not
independent, so more of them do not shrink it further. Means have no such limit: one step of 1.5 s
among 120 of 10 ms makes the mean 2.2 times as long. So the usual step, which such steps do not
move, has to have changed by more than this too; a median would miss waits that come every few
steps. On a busy machine no limit holds: where others kept 1.7 of 2 cores busy, one program's mean
step was 14 ms in one run and 38 ms in another."""


def noise_of(steps: int) -> float:
    """The share that two runs of so many steady steps may differ by."""
    return NOISE_MANY if steps >= MANY_STEPS else NOISE_FEW


@dataclass(frozen=True)
class Ratios:
    """Step before over step after, > 1 where the second run is faster."""

    mean: float
    usual: float

    @property
    def opposite(self) -> bool:
        """Whether one of ``mean`` and ``usual`` is faster and the other slower."""
        return (self.mean - 1) * (self.usual - 1) < 0

    @property
    def cautious(self) -> float:
        """The ratio closer to 1: what both the mean and the usual step vouch for."""
        if self.opposite:
            return 1.0
        return min(self.mean, self.usual, key=lambda ratio: abs(math.log(ratio)))


FEWEST_STEPS = 20
"""Steady steps of each run below which there is no verdict."""
