"""What happened between two moments: busy time by device and thread, calls and time by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.intervals import Intervals, sums, union
from perftui.analysis.kinds import once
from perftui.analysis.model import Gap, Step, TraceAnalysis
from perftui.analysis.steps import find_phases
from perftui.trace.model import NONE, PYTHON, Int64, Ints, Mask, Trace


@dataclass(frozen=True)
class Busy:
    """How long a device, or a thread, was at work in a range."""

    device: int
    """NONE for a thread."""
    track: int
    """The thread's track, NONE for a device, whose streams are taken together."""
    time: int
    """Nanoseconds in which anything ran: overlapping and nested events are united, not summed. Of a
    thread, operators and calls count; ranges and Python frames are open whether it works or not."""
    events: int
    """Events that count in ``time``."""


@dataclass(frozen=True)
class NameTime:
    """All events of one name in a range."""

    name: str
    on_device: bool
    calls: int
    """Events of which any part lies in the range, those without duration by their start."""
    total: int
    """Nanoseconds inside the range, summed over the events; with what each of them called."""
    own: int
    """Nanoseconds without what they called; on a device, where nothing calls, it is ``total``."""


@dataclass(frozen=True)
class Measure:
    """A range ``[start, end)`` of a trace, in ns since its origin."""

    start: int
    end: int
    devices: tuple[Busy, ...]
    """Every device of the trace, also one that was idle all through the range."""
    threads: tuple[Busy, ...]
    """Threads with any operator or call in the range, busiest first."""
    names: tuple[NameTime, ...]
    """First by ``own``; the file's names, not yet safe to show."""

    @property
    def duration(self) -> int:
        """How long the range is."""
        return self.end - self.start


def measure(trace: Trace, start: int, end: int, rank: int = NONE) -> Measure:
    """Measure ``[start, end)``: every event counts with the part of it that lies inside. Of several
    ranks put together what all of them did, or only ``rank``.

    Raises:
        ValueError: the range ends before it starts.
    """
    if end < start:
        raise ValueError(f"a range from {start} to {end}")
    tracks = [at for at, one in enumerate(trace.tracks) if rank in (NONE, one.rank)]
    rows = _touching(trace, start, end, tracks)
    begins = np.maximum(trace.start[rows], start)
    ends = np.minimum(trace.ends_of(rows), end)
    activity = kinds.device_activity(trace)[rows]
    host = (kinds.on_thread(trace) & ~kinds.ranges(trace) & ~trace.in_category(PYTHON))[rows]
    threads = _threads(trace, rows[host], begins[host], ends[host])
    return Measure(
        start,
        end,
        tuple(_devices(trace, tracks, rows[activity], begins[activity], ends[activity])),
        tuple(sorted(threads, key=lambda one: (-one.time, one.track))),
        tuple(sorted(_names(trace, rows, begins, ends), key=lambda one: (-one.own, one.name))),
    )


def _touching(trace: Trace, start: int, end: int, tracks: Sequence[int]) -> Int64:
    """Rows of ``tracks`` of which any part is between ``start`` and ``end``."""
    bounds = np.searchsorted(trace.track, np.arange(len(trace.tracks) + 1)).tolist()
    found = [np.zeros(0, dtype=np.int64)]
    for low, high in [(bounds[at], bounds[at + 1]) for at in tracks]:
        # An int64: for a Python int all of the column would be converted.
        stop = low + int(np.searchsorted(trace.start[low:high], np.int64(end)))
        reach = trace.ends_of(slice(low, stop))
        inside = (reach > start) | (trace.start[low:stop] >= start)
        found.append(np.flatnonzero(inside) + low)
    return np.concatenate(found)


def _devices(
    trace: Trace, tracks: Sequence[int], rows: Int64, begins: Int64, ends: Int64
) -> Iterator[Busy]:
    of_row = kinds.devices(trace)[rows]
    known = {trace.tracks[at].device for at in tracks if trace.tracks[at].is_device}
    for device in sorted(known):
        mine = of_row == device
        yield Busy(device, NONE, union(begins[mine], ends[mine]).total, int(mine.sum()))


def _threads(trace: Trace, rows: Int64, begins: Int64, ends: Int64) -> Iterator[Busy]:
    of_row = trace.track[rows]
    for track in np.unique(of_row).tolist():
        mine = of_row == track
        yield Busy(NONE, track, union(begins[mine], ends[mine]).total, int(mine.sum()))


def _names(trace: Trace, rows: Int64, begins: Int64, ends: Int64) -> Iterator[NameTime]:
    """Marks on a stream (ranges, waits) are no work of the device and count nowhere, and what
    repeats other rows counts once."""
    activity = kinds.device_activity(trace)[rows]
    counted = activity | kinds.on_thread(trace)[rows]
    rows, inside, on_device = rows[counted], (ends - begins)[counted], activity[counted]
    own = inside - np.where(on_device, 0, _called(trace, rows, inside))
    key = 2 * trace.name[rows].astype(np.int64) + on_device
    keys, group = np.unique(key, return_inverse=True)
    calls = np.bincount(group, minlength=len(keys))
    totals, owns = sums(group, inside, len(keys)), sums(group, own, len(keys))
    for number, count, total, alone in zip(
        keys.tolist(), calls.tolist(), totals.tolist(), owns.tolist(), strict=True
    ):
        yield NameTime(trace.names[number // 2], bool(number % 2), count, total, alone)


def _called(trace: Trace, rows: Int64, inside: Int64) -> Int64:
    """For each row the time of the calls that it made."""
    callers = trace.parent[rows]
    # A call without duration at the very start may have its caller before it.
    known = np.flatnonzero((callers != NONE) & np.isin(callers, rows))
    places = np.searchsorted(rows, callers[known])
    return sums(places, inside[known], len(rows))


MOST_DEVICES = 8


@dataclass(frozen=True)
class BusyColumns:
    """How much of each column a device, or the training thread's operators, covered."""

    device: int
    """NONE for the training thread."""
    shares: tuple[float, ...]
    """0 to 1."""


@dataclass(frozen=True)
class StepColumns:
    """One step, cut into columns of equal time."""

    step: Step
    phases: tuple[str, ...]
    """Of each column the phase that covers most of it; empty where none covers any."""
    busy: tuple[BusyColumns, ...]
    """One for each device with work in the trace; without a device that of the training thread."""
    gaps: tuple[Gap, ...]
    """Those of the first device within the step, longest first."""

    def column_of(self, time: int) -> int:
        """The column that holds ``time``, ns since the trace's origin, the nearest outside it."""
        count = len(self.phases)
        at = (time - self.step.start) * count // max(self.step.duration, 1)
        return min(max(int(at), 0), count - 1)


def step_columns(analysis: TraceAnalysis, columns: int) -> StepColumns | None:
    """The newest whole step; None where none is marked, or of several ranks put together."""
    if not analysis.steps or analysis.ranks or columns < 1:
        return None
    # Device and host go by the same clock here, so that a gap stands below what the host does.
    step = max(analysis.steps, key=lambda one: one.start)
    edges = np.linspace(step.start, step.end, columns + 1).astype(np.int64)
    trace = analysis.trace
    busy = tuple(
        BusyColumns(device, tuple(_shares(intervals, edges).tolist()))
        for device, intervals in _working(trace).items()
    )
    first = busy[0].device if busy else NONE
    gaps = (one for one in analysis.gaps if one.device == first)
    within = tuple(one for one in gaps if one.start < step.end and one.end > step.start)
    return StepColumns(step, _phases(trace, edges), busy, within)


def _phases(trace: Trace, edges: npt.NDArray[np.int64]) -> tuple[str, ...]:
    found = find_phases(trace)
    names = ("", *found)
    nothing = np.zeros(len(edges) - 1)
    covered = np.stack([nothing, *(_shares(one, edges) for one in found.values())])
    return tuple(names[at] for at in covered.argmax(axis=0).tolist())


@once
def _working(trace: Trace) -> dict[int, Intervals]:
    """When each device had work; without any when the training thread was in an operator."""
    near = kinds.believable(trace) if len(trace) else np.zeros(0, dtype=bool)
    rows = np.flatnonzero(kinds.device_activity(trace) & near)
    if not len(rows):
        mask = kinds.operators(trace) & (trace.track == main_track(trace)) & near
        return {NONE: union(trace.start[mask], trace.ends_of(mask))}
    devices = kinds.devices(trace)[rows]
    numbers = np.unique(devices).tolist()[:MOST_DEVICES]
    of_each = {int(number): rows[devices == number] for number in numbers}
    return {n: union(trace.start[mine], trace.ends_of(mine)) for n, mine in of_each.items()}


def _shares(intervals: Intervals, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Which share of each column is covered."""
    lengths = np.maximum(np.diff(edges), 1)
    shares: npt.NDArray[np.float64] = intervals.within(edges[:-1], edges[1:]) / lengths
    return shares


# ``links.link`` joins all rows at once; this answers a key press on a trace of ten million rows.

_AT_ONCE = 1 << 14
"""Rows inside a call that are looked at in one go: the first launch is mostly among the first."""


@dataclass(frozen=True, eq=False)
class _ByCorrelation:
    """Rows in order of their correlation id, of equals in order of the trace."""

    ids: Ints
    rows: Int64

    @staticmethod
    def of(trace: Trace, among: Mask) -> _ByCorrelation:
        rows = np.flatnonzero(among & (trace.correlation != NONE))
        rows = rows[np.argsort(trace.correlation[rows], kind="stable")]
        return _ByCorrelation(trace.correlation[rows], rows)

    def all_of(self, number: int) -> Int64:
        # In the column's own width: else all of it would be converted.
        key = self.ids.dtype.type(number)
        low, high = (int(np.searchsorted(self.ids, key, side)) for side in ("left", "right"))
        return self.rows[low:high]

    def holds(self, numbers: Ints) -> Mask:
        places = np.searchsorted(self.ids, numbers)
        found: Mask = np.zeros(len(numbers), dtype=bool)
        if len(self.ids):
            safe = np.minimum(places, len(self.ids) - 1)
            found = (self.ids[safe] == numbers) & (numbers != NONE)
        return found


class Launches:
    """The launches of a trace, sorted once (1 s for ten million rows that all are launches)."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._work = _ByCorrelation.of(trace, kinds.device_activity(trace))
        self._calls = _ByCorrelation.of(trace, kinds.launches(trace))

    def launched(self, row: int) -> Int64:
        """The device activity that ``row``, or else the first launching call inside it, launched,
        by start: several rows for a graph. Empty where none is in the trace."""
        for rows in self._inside(row):
            joined = self._work.holds(self._trace.correlation[rows])
            if joined.any():
                launch = int(rows[int(np.argmax(joined))])
                found = self._work.all_of(int(self._trace.correlation[launch]))
                return found[np.argsort(self._trace.start[found], kind="stable")]
        return np.zeros(0, dtype=np.int64)

    def launching(self, row: int) -> int:
        """The call that launched the device activity ``row``; NONE where it is not in the trace."""
        number = int(self._trace.correlation[row])
        if number == NONE or not self._trace.tracks[int(self._trace.track[row])].is_device:
            return NONE
        calls = self._calls.all_of(number)
        return int(calls[0]) if len(calls) else NONE

    def _inside(self, row: int) -> Iterator[Int64]:
        """``row`` and the rows of its thread that begin inside it, in pieces."""
        trace = self._trace
        if trace.tracks[int(trace.track[row])].is_device:
            return
        stop = row + rows_inside(trace, row)
        for begin in range(row, stop, _AT_ONCE):
            yield np.arange(begin, min(begin + _AT_ONCE, stop), dtype=np.int64)


def rows_inside(trace: Trace, row: int) -> int:
    """How many rows of a thread begin in the call ``row``, with itself; they follow each other."""
    high = int(np.searchsorted(trace.track, trace.track[row], side="right"))
    end = np.int64(trace.start[row] + trace.duration[row])
    return max(int(np.searchsorted(trace.start[row:high], end, side="right")), 1)
