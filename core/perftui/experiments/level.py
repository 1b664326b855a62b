"""Whether the newest of many runs of one command is slower than usual, and since which it is.

The logarithms of step times are gone through in order. Runs within the noise are the usual ones:
their median is what is usual, their median absolute deviation gives the noise, since a cold first
run or a disturbed one must move neither. A run beyond the noise begins an interval of slow runs,
and those after it that stay beyond half of the noise belong to it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

FEWEST_RUNS = 5
"""Earlier runs that can be compared, below which nothing is certain."""

DEVIATIONS = 3.0
"""Robust standard deviations (1.4826 times the median absolute deviation) that noise stays within.
Where two runs differ by up to 6 %, fewer than 1 in 100 are called slower without being so, and 86
in 100 that are 10 % slower; 4 deviations would find 74 of those. docs/experiments.md has all
rates."""

_NORMAL = 1.4826
"""Standard deviation of normal noise over its median absolute deviation."""


class Place(str, enum.Enum):
    """Where a run lies among those before it."""

    UNKNOWN = "unknown"
    """Too few runs came before it."""
    USUAL = "usual"
    SLOWER = "slower"
    FASTER = "faster"


@dataclass(frozen=True)
class Level:
    """One run beside those before it."""

    place: Place
    usual_ns: float | None = None
    """Median step of the usual runs before it; None where they are too few."""
    noise: float | None = None
    """The share by which a step has to be longer than that to count as slower."""
    since: int | None = None
    """Of a slower run the number of the first one of its interval."""


def levels(steps: Sequence[int], floors: Sequence[float]) -> list[Level]:
    """The level of each run, by those before it.

    Args:
        steps: usual step of each run in ns, > 0, the oldest run first.
        floors: shares that two runs of one program may always differ by, one for each.
    """
    walk = _Walk()
    return [
        walk.next(number, math.log(step), math.log1p(floor))
        for number, (step, floor) in enumerate(zip(steps, floors, strict=True))
    ]


class _Walk:
    def __init__(self) -> None:
        self._usual: list[float] = []
        self._slow_since: int | None = None
        self._fast: list[float] = []

    def next(self, number: int, step: float, floor: float) -> Level:
        if len(self._usual) < FEWEST_RUNS:
            self._usual.append(step)
            return Level(Place.UNKNOWN)
        middle = median(self._usual)
        spread = median(abs(one - middle) for one in self._usual)
        noise = max(floor, DEVIATIONS * _NORMAL * spread)
        place = self._place(step - middle, noise)
        self._remember(number, step, place)
        return Level(place, math.exp(middle), math.expm1(noise), self._slow_since)

    def _place(self, longer: float, noise: float) -> Place:
        if longer > (noise if self._slow_since is None else noise / 2):
            return Place.SLOWER
        return Place.FASTER if longer < -noise else Place.USUAL

    def _remember(self, number: int, step: float, place: Place) -> None:
        """``FEWEST_RUNS`` faster runs in turn are what is usual from then on."""
        if place is Place.SLOWER:
            self._slow_since = number if self._slow_since is None else self._slow_since
        else:
            self._slow_since = None
        self._fast = [*self._fast, step] if place is Place.FASTER else []
        if place is Place.USUAL:
            self._usual.append(step)
        if len(self._fast) == FEWEST_RUNS:
            self._usual, self._fast = self._fast, []
