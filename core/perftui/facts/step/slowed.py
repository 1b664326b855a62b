"""By how much profiled steps were longer than the steps beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.facts.step.steady import median
from perftui.run.aggregates import Aggregates, Histogram, after_disturbance
from perftui.run.table import Table

BESIDE = 10
"""Steps before a window, and as many after it, that show how long its steps would have been. The
pace of a training changes with its data and with what else the machine does: 450 steps of which no
more than 9 were profiled had a median of 90 ms and a mean of 250 ms on a busy machine, and beside
the median of them all the windows seemed to have taken 7.7 s."""

SETTLED = 3
"""Steps before the first window that are no warm-up: the agent opens it after so many alike."""

DEVIATIONS = 2.0
"""Standard errors on either side of the estimate that hold the truth with 95 %."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Slowed:
    """By how much all profiled steps together were slowed down, ns."""

    estimate: float
    """Negative where they happened to be shorter."""
    error: float
    """Standard error of ``estimate``, from the scatter of the steps beside them."""

    @property
    def certain(self) -> int:
        """What was certainly taken: the estimate where it stands out of the scatter, else 0."""
        return round(self.estimate) if self.estimate > DEVIATIONS * self.error else 0

    @property
    def at_most(self) -> int:
        """What may have been taken."""
        return max(round(self.estimate + DEVIATIONS * self.error), 0)

    def plus(self, other: Slowed) -> Slowed:
        """This and ``other`` together; their errors are independent."""
        return Slowed(self.estimate + other.estimate, math.hypot(self.error, other.error))


NONE_SLOWED = Slowed(0.0, 0.0)


def slowed(steps: Table, kind: str, downsampled: Aggregates) -> Slowed:
    """What windows added to the steps of ``kind``, besides what the training waited for them.

    Each window is compared with the mean of the undisturbed steps beside it; with fewer than two of
    them it is left out. Of the steps that are no longer rows of ``steps`` the means are compared.
    """
    return _beside(steps, kind).plus(_in_aggregates(kind, downsampled))


def _beside(steps: Table, kind: str) -> Slowed:
    rows = np.flatnonzero(steps["kind"] == kind)
    if not steps["profiled"][rows].any():
        return NONE_SLOWED
    work = (steps["duration"] - steps["profiler"])[rows]
    profiled = steps["profiled"][rows]
    first, end = _runs(profiled == 1)
    usual = np.flatnonzero(~after_disturbance(profiled))
    usual = usual[usual >= first[0] - SETTLED]
    where = np.searchsorted(usual, first)
    low, high = np.maximum(where - BESIDE, 0), np.minimum(where + BESIDE, len(usual))
    known = high - low >= 2
    if not known.any():
        return NONE_SLOWED
    low, high, first, end = low[known], high[known], first[known], end[known]
    mean, variance = _moments(work[usual], low, high)
    length = end - first
    total = np.concatenate(([0], np.cumsum(work)))
    added = total[end] - total[first] - length * mean
    error = variance * (length + length**2 / (high - low))
    return Slowed(float(added.sum()), math.sqrt(error.sum()))


def _runs(chosen: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Where runs of chosen rows begin, and the row after each."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False])).astype(np.int8)))
    return edges[::2], edges[1::2]


def _moments(
    values: Ints, low: Ints, high: Ints
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and variance of ``values`` from each ``low`` to ``high``."""
    # Squares of ns since the middle: those of the values themselves would lose their last digits.
    middle = median(values)
    centred = values - middle
    count = high - low
    sums, squares = (np.concatenate(([0.0], np.cumsum(one))) for one in (centred, centred**2))
    mean = (sums[high] - sums[low]) / count
    variance = (squares[high] - squares[low] - count * mean**2) / (count - 1)
    return mean + middle, np.maximum(variance, 0.0)


def _in_aggregates(kind: str, downsampled: Aggregates) -> Slowed:
    profiled, plain = downsampled.of(kind, True), downsampled.of(kind, False)
    if not profiled.rows or plain.rows < 2:
        return NONE_SLOWED
    usual = (plain.of("duration").total - plain.of("profiler").total) / plain.rows
    total = profiled.of("duration").total - profiled.of("profiler").total
    variance = _variance(plain.histogram("duration"))
    error = variance * (profiled.rows + profiled.rows**2 / plain.rows)
    return Slowed(total - profiled.rows * usual, math.sqrt(error))


def _variance(values: Histogram) -> float:
    """Variance of the values in a histogram; within a bucket they differ by 0.4 % at most."""
    counts = np.array([count for count, _ in values.values()], dtype=np.float64)
    means = np.array([total for _, total in values.values()], dtype=np.float64) / counts
    mean = np.average(means, weights=counts)
    return float((counts * (means - mean) ** 2).sum() / max(counts.sum() - 1, 1))
