"""A quantity that was sampled, on a trace's clock: how long each sample stands for the quantity.

A sample says nothing of the time beyond its interval: there the quantity is not known, and nothing
is drawn. Columns of time are answered from sums before each sample, at one cost for every zoom.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from perftui.analysis.timeline.track import edges
from perftui.trace.model import Int64

Float64 = npt.NDArray[np.float64]

LATE = 1.5
"""A sample that comes so many intervals after the one before is late, not missing."""


@dataclass(frozen=True)
class Sample:
    """One sample: ``value`` stands for ``[start, end)``, and was taken ``at``; ns since origin."""

    start: int
    end: int
    at: int
    value: float


@dataclass(frozen=True, eq=False)
class Counter:
    """One quantity over the time of a trace. The arrays are of equal length, in order of time; what
    samples stand for does not overlap. All times are ns since the trace's origin."""

    name: str
    short: str
    """The name where there is little room."""
    unit: str
    """``%``, ``B``, ``B/s``, ``W``, ``MHz`` or ``count``."""
    source: str
    """Where it is from, as a sentence without its full stop."""
    top: float
    """What a full cell stands for: the most there can be where that is known, else the largest
    sample or a round number above it. 0 where all samples are 0."""
    interval: int
    """Usual time between two samples; 0 where each change is recorded, not sampled."""
    is_mean: bool
    """Whether a sample is the mean over the time before it, which it stands for; else it stands for
    the time behind it."""
    start: Int64
    end: Int64
    at: Int64
    value: Float64

    def __len__(self) -> int:
        return len(self.start)

    def sample(self, place: int) -> Sample:
        """The sample at ``place`` in the arrays."""
        return Sample(
            int(self.start[place]),
            int(self.end[place]),
            int(self.at[place]),
            float(self.value[place]),
        )

    def prepare(self) -> None:
        """Work out now what is needed of all samples."""
        _ = self._known, self._area, self.lowest, self.highest

    def place_at(self, time: int) -> int | None:
        """The place of the sample that stands for ``time``; None where none does."""
        place = int(np.searchsorted(self.start, np.int64(time), side="right")) - 1
        return place if place >= 0 and time < self.end[place] else None

    def is_sampled_in(self, start: int, end: int) -> bool:
        """Whether any sample was taken in ``[start, end)``."""
        low, high = np.searchsorted(self.at, np.array([start, end], dtype=np.int64))
        return bool(high > low)

    def means(self, t0: int, t1: int, columns: int) -> Float64:
        """The mean over what is known of each column of ``[t0, t1)``, NaN where nothing is.

        A column inside one sample has its value exactly.
        """
        times = edges(t0, t1, columns)
        known, area = self._before(times)
        lengths = np.diff(known)
        with np.errstate(invalid="ignore", divide="ignore"):
            means: Float64 = np.where(lengths > 0, np.diff(area) / lengths, np.nan)
        if len(self):
            first = np.searchsorted(self.end, times[:-1], side="right")
            last = np.searchsorted(self.start, times[1:], side="left") - 1
            alone = (first == last) & (lengths > 0)
            means[alone] = self.value[first[alone]]
        return means

    def _before(self, times: Int64) -> tuple[Int64, Float64]:
        """Known time before each of ``times``, and value times ns over it."""
        if not len(self):
            return np.zeros(len(times), dtype=np.int64), np.zeros(len(times))
        place = np.searchsorted(self.start, times, side="right") - 1
        safe = np.maximum(place, 0)
        inside = np.minimum(times, self.end[safe]) - self.start[safe]
        inside = np.where(place < 0, 0, inside)
        return self._known[safe] + inside, self._area[safe] + inside * self.value[safe]

    @cached_property
    def lowest(self) -> float:
        """The smallest sample; there is one at least."""
        return float(self.value.min())

    @cached_property
    def highest(self) -> float:
        """The largest sample; there is one at least."""
        return float(self.value.max())

    @cached_property
    def _known(self) -> Int64:
        """Known time before each sample."""
        lengths = self.end - self.start
        sums: Int64 = np.cumsum(lengths) - lengths
        return sums

    @cached_property
    def _area(self) -> Float64:
        areas = (self.end - self.start) * self.value
        sums: Float64 = np.cumsum(areas) - areas
        return sums


def intervals(at: Int64, interval: int | Int64, *, is_mean: bool) -> tuple[Int64, Int64]:
    """Start and end of what each of samples taken ``at`` (ascending, ns) stands for.

    The mean over a time stands for the time back to the sample before, any other for the time to
    the next: if that is at most ``LATE`` intervals away, else for one ``interval`` alone. That is
    one for all samples, or one for each.
    """
    each = np.broadcast_to(np.asarray(interval, dtype=np.int64), at.shape)
    reach = each.copy()
    apart = np.diff(at)
    # To the sample before, which the first has not, or to the next, which the last has not.
    inner = slice(1, None) if is_mean else slice(None, -1)
    reach[inner] = np.where(apart <= LATE * each[inner], apart, each[inner])
    return (at - reach, at) if is_mean else (at, at + reach)


def usual_interval(at: Int64, unknown: int) -> int:
    """The median time between samples, ns; ``unknown`` where there are fewer than two."""
    return max(int(np.median(np.diff(at))), 1) if len(at) > 1 else unknown
