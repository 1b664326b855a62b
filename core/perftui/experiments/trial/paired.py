"""How many times as fast one of two ways is, by pairs of runs, and how sure that is.

The unit is a run of its own process: steps of one run are not independent. Of each pair the ratio
of both mean steps counts, so that whatever slows both runs of a pair alike falls out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

LOOKS = ((6, 1), (9, 4), (14, 15))
"""Numbers of pairs after which a result is looked at, and by how many of the outermost Walsh
averages the interval is cut there. All three looks together call a difference where there is none
in at most 5 % of cases: 4.8 % of 40,000 simulated trials of normal ratios, 4.9 % of Student's t
with 3 degrees of freedom."""

CONFIDENCE = 0.95
"""Of the interval, over all looks together."""


@dataclass(frozen=True)
class Estimate:
    """A ratio, above 1 where the change makes it faster."""

    ratio: float
    """Hodges-Lehmann: the median of the means of any two pairs, of logarithms."""
    low: float
    high: float
    """Ends of the interval, which is exact for ratios that are spread alike to both sides."""
    pairs: int


def estimate(ratios: Sequence[float]) -> Estimate | None:
    """The estimate of the pairs so far, at the last look that they suffice for; None before it.

    The interval is Tukey's: Walsh averages, cut by the distribution of Wilcoxon's signed ranks.
    """
    cut = max((look for look in LOOKS if look[0] <= len(ratios)), default=None)
    if cut is None:
        return None
    pairs, outermost = cut
    walsh = _walsh([math.log(ratio) for ratio in ratios[:pairs]])
    return Estimate(
        math.exp(median(walsh)),
        math.exp(walsh[outermost - 1]),
        math.exp(walsh[-outermost]),
        pairs,
    )


def next_look(pairs: int) -> int | None:
    """The number of pairs to go on to; None where the last look is past."""
    return next((count for count, _ in LOOKS if count > pairs), None)


def _walsh(values: Sequence[float]) -> list[float]:
    """Means of any two, each with itself too, in order."""
    return sorted((one + other) / 2 for at, one in enumerate(values) for other in values[at:])
