"""One track of the timeline: events that do not overlap, or samples of a quantity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from perftui.analysis.intervals import Intervals
from perftui.trace.model import NONE, Int32, Int64, Trace


def longest(values: Int64, begin: Int64, stop: Int64) -> Int64:
    """Index of the first largest value in each ``[begin, stop)``; -1 if that is empty."""
    result = np.full(len(begin), -1, dtype=np.int64)
    asked = np.flatnonzero(stop > begin)
    ranges = zip(begin[asked].tolist(), stop[asked].tolist(), strict=True)
    result[asked] = [low + int(values[low:high].argmax()) for low, high in ranges]
    return result


# Events of a track never overlap, so the time they cover before ``t`` is a prefix sum plus a part
# of one event: a search for the edges of the columns answers every zoom at the same cost.


def edges(t0: int, t1: int, columns: int) -> Int64:
    """The ``columns + 1`` times between columns of ``[t0, t1)``; int64, because searching an int64
    array for floats copies all of it."""
    steps = np.arange(columns + 1, dtype=np.int64)
    whole, part = divmod(t1 - t0, columns)
    return t0 + steps * whole + steps * part // columns


@dataclass(frozen=True, eq=False)
class TrackIndex:
    """Events that do not overlap, by start. ``rows`` are their rows in the trace."""

    rows: Int32
    start: Int64
    end: Int64

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, trace: Trace, rows: Int64) -> TrackIndex:
        """Rows of a trace that do not overlap, by start."""
        return cls(rows.astype(np.int32), trace.start[rows], trace.ends_of(rows))

    @cached_property
    def _duration(self) -> Int64:
        return self.end - self.start

    @cached_property
    def _covered(self) -> Intervals:
        """For sums of time alone: that some of them touch makes no difference there."""
        return Intervals(self.start, self.end)

    @cached_property
    def _gaps(self) -> Int64:
        """Idle time before each event but the first."""
        return self.start[1:] - self.end[:-1]

    def busy(self, t0: int, t1: int, columns: int) -> Int64:
        """Nanoseconds covered in each column of ``[t0, t1)``."""
        return np.diff(self._covered.before(edges(t0, t1, columns)))

    def dominant(self, t0: int, t1: int, columns: int) -> Int32:
        """The row that covers most of each column (the first of equals); -1 without one."""
        times = edges(t0, t1, columns)
        first = np.searchsorted(self.end, times[:-1], side="right")
        behind = np.searchsorted(self.start, times[1:], side="left")
        touched = np.flatnonzero(behind > first)
        low, high = times[:-1][touched], times[1:][touched]
        best, most = self._longest_between(first[touched], behind[touched], low, high)
        rows = np.full(columns, NONE, dtype=np.int32)
        rows[touched[most > 0]] = self.rows[best[most > 0]]
        return rows

    def _longest_between(
        self, first: Int64, behind: Int64, low: Int64, high: Int64
    ) -> tuple[Int64, Int64]:
        """The event with most time in each column: only its first and last event can stick out."""
        last = behind - 1
        best: Int64 = first.copy()
        most: Int64 = np.minimum(self.end[first], high) - np.maximum(self.start[first], low)
        middle = longest(self._duration, first + 1, last)
        for candidate in (middle, last):
            safe = np.maximum(candidate, 0)
            covered = np.minimum(self.end[safe], high) - np.maximum(self.start[safe], low)
            better = (candidate > first) & (covered > most)
            best[better], most[better] = candidate[better], covered[better]
        return best, most

    def largest_gap(self, t0: int, t1: int, columns: int) -> Int64:
        """The longest gap, ns, that touches each column, with its part outside.

        Time before the first and after the last event of the track is no gap.
        """
        largest = np.zeros(columns, dtype=np.int64)
        times = edges(t0, t1, columns)
        # Gap g is between events g and g + 1; here the first and last that touch each column.
        first = np.searchsorted(self.start[1:], times[:-1], side="right")
        behind = np.searchsorted(self.end[:-1], times[1:], side="left")
        touched = (behind > first) & (times[1:] > times[:-1])
        largest[touched] = self._gaps[longest(self._gaps, first[touched], behind[touched])]
        return largest

    def next_gap(self, t: int, threshold: int) -> tuple[int, int] | None:
        """The first gap of at least ``threshold`` ns that starts after ``t``."""
        first = int(np.searchsorted(self.end[:-1], np.int64(t), side="right"))
        long = np.flatnonzero(self._gaps[first:] >= max(threshold, 1))
        return self._gap_at(first + int(long[0])) if len(long) else None

    def previous_gap(self, t: int, threshold: int) -> tuple[int, int] | None:
        """The last gap of at least ``threshold`` ns that starts before ``t``."""
        behind = int(np.searchsorted(self.end[:-1], np.int64(t), side="left"))
        long = np.flatnonzero(self._gaps[:behind] >= max(threshold, 1))
        return self._gap_at(int(long[-1])) if len(long) else None

    def _gap_at(self, index: int) -> tuple[int, int]:
        return int(self.end[index]), int(self.start[index + 1])


DEVICE = "device"
THREAD = "thread"
MARKS = "marks"
WHOLE = "whole"
STEPS = "steps"
PHASES = "phases"
COUNTER = "counter"
HELPERS = "helpers"


@dataclass(frozen=True, eq=False)
class TimelineTrack:
    """Rows of one of the trace's tracks that do not overlap.

    ``kind`` is ``device``, ``thread`` or ``marks`` (ranges that are no activity: annotations on a
    stream, synchronisation). ``depth`` counts from 0 within the track.

    A ``whole`` track is a device of several streams: each row is cut to the part in which no
    earlier row still runs, so that together they are the busy time of the device. Its ``track`` is
    the first of the streams, and its rows are ordered by start only.

    ``steps`` and ``phases`` are those of a rank, for merged ranks.

    ``helpers`` combines the threads with next to no work: their rows are cut as on a ``whole``
    track. Its ``track`` is the first of those threads. A ``counter`` shows samples and belongs to
    none of the trace's tracks (NONE): the ``rows`` of its index number the samples.
    """

    label: str
    kind: str
    track: int
    depth: int
    index: TrackIndex

    @property
    def is_overview(self) -> bool:
        """Whether the track's rows only mark when other rows were at work."""
        return self.kind in (STEPS, PHASES)


# A sample says nothing about time beyond its interval: there the quantity is unknown, and nothing
# is drawn. Columns of time are computed from sums before each sample, at one cost for every zoom.

Float64 = npt.NDArray[np.float64]

LATE = 1.5
"""Most intervals after the previous sample at which a sample is late, not missing."""


@dataclass(frozen=True)
class Sample:
    """One sample: ``value`` holds for ``[start, end)``, in ns since the trace's origin."""

    start: int
    end: int
    value: float


@dataclass(frozen=True, eq=False)
class Counter:
    """One quantity over the time of a trace. The arrays are of equal length, in order of time;
    intervals of samples do not overlap. All times are ns since the trace's origin."""

    name: str
    short: str
    """The name for little room."""
    unit: str
    """``%``, ``B``, ``B/s``, ``W``, ``MHz`` or ``count``."""
    source: str
    """The source, as a sentence without its full stop."""
    top: float
    """The value of a full cell: the maximum if known, else the largest sample or a round number
    above it. 0 if all samples are 0."""
    interval: int
    """Usual time between samples; 0 if each change is recorded, not sampled."""
    is_mean: bool
    """Whether a sample is the mean over the time before it, and holds for that; else it holds for
    the time after it."""
    start: Int64
    end: Int64
    at: Int64
    value: Float64

    def __len__(self) -> int:
        return len(self.start)

    def sample(self, place: int) -> Sample:
        """The sample at index ``place``."""
        return Sample(int(self.start[place]), int(self.end[place]), float(self.value[place]))

    def prepare(self) -> None:
        """Compute in advance everything that needs all samples."""
        _ = self._known, self._area, self.lowest, self.highest

    def place_at(self, time: int) -> int | None:
        """Index of the sample that holds for ``time``; None without one."""
        place = int(np.searchsorted(self.start, np.int64(time), side="right")) - 1
        return place if place >= 0 and time < self.end[place] else None

    def is_sampled_in(self, start: int, end: int) -> bool:
        """Whether any sample was taken in ``[start, end)``."""
        low, high = np.searchsorted(self.at, np.array([start, end], dtype=np.int64))
        return bool(high > low)

    def means(self, t0: int, t1: int, columns: int) -> Float64:
        """Mean of the known part of each column of ``[t0, t1)``; NaN if nothing is known.

        A column inside one sample has its value exactly.
        """
        times = edges(t0, t1, columns)
        lengths_before, area = self._before(times)
        lengths = np.diff(lengths_before)
        with np.errstate(invalid="ignore", divide="ignore"):
            means: Float64 = np.where(lengths > 0, np.diff(area) / lengths, np.nan)
        if len(self):
            first = np.searchsorted(self.end, times[:-1], side="right")
            last = np.searchsorted(self.start, times[1:], side="left") - 1
            alone = (first == last) & (lengths > 0)
            means[alone] = self.value[first[alone]]
        return means

    def _before(self, times: Int64) -> tuple[Int64, Float64]:
        """Known time before each of ``times``, and the integral of the value over it."""
        if not len(self):
            return np.zeros(len(times), dtype=np.int64), np.zeros(len(times))
        place = np.searchsorted(self.start, times, side="right") - 1
        safe = np.maximum(place, 0)
        inside = np.minimum(times, self.end[safe]) - self.start[safe]
        inside = np.where(place < 0, 0, inside)
        return self._known[safe] + inside, self._area[safe] + inside * self.value[safe]

    @cached_property
    def lowest(self) -> float:
        """The smallest sample (there must be one)."""
        return float(self.value.min())

    @cached_property
    def highest(self) -> float:
        """The largest sample (there must be one)."""
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
        return np.cumsum(areas) - areas


def intervals(at: Int64, interval: int | Int64, *, is_mean: bool) -> tuple[Int64, Int64]:
    """Start and end of each interval of samples taken ``at`` (ascending, ns).

    A mean holds back to the previous sample, any other value until the next, if that is at most
    ``LATE`` intervals away; else only for one ``interval``, which is common to all samples or one
    for each.
    """
    lengths = np.broadcast_to(np.asarray(interval, dtype=np.int64), at.shape)
    reach = lengths.copy()
    apart = np.diff(at)
    # To the previous sample, which the first lacks, or to the next, which the last lacks.
    inner = slice(1, None) if is_mean else slice(None, -1)
    reach[inner] = np.where(apart <= LATE * lengths[inner], apart, lengths[inner])
    return (at - reach, at) if is_mean else (at, at + reach)


def usual_interval(at: Int64, unknown: int) -> int:
    """The median time between samples, ns; ``unknown`` with fewer than two."""
    return max(int(np.median(np.diff(at))), 1) if len(at) > 1 else unknown
