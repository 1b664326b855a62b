"""How many times as fast one run is as another, by its mean step and by its usual one."""

from __future__ import annotations

import math
from dataclasses import dataclass


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
