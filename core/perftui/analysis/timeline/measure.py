"""What happened between two moments: busy time by device and thread, calls and time by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.intervals import Intervals, sums, union
from perftui.analysis.kinds import once, track_bounds
from perftui.analysis.model import Gap, Step, TraceAnalysis
from perftui.analysis.steps import find_phases
from perftui.trace.model import NONE, PYTHON, Int64, Ints, Mask, Trace


@dataclass(frozen=True)
class Busy:
    """Busy time of a device or a thread in a range."""

    device: int
    """NONE for a thread."""
    track: int
    """The thread's track; NONE for a device, which includes all its streams."""
    time: int
    """Nanoseconds in which anything ran: overlapping and nested events count once. On a thread,
    only operators and calls count; ranges and Python frames are open whether it works or not."""
    events: int
    """Events that count in ``time``."""


@dataclass(frozen=True)
class NameTime:
    """All events of one name in a range."""

    name: str
    on_device: bool
    calls: int
    """Events with any part in the range; those without duration by their start."""
    total: int
    """ns inside the range, summed over the events, including what they called."""
    own: int
    """ns without what they called; equals ``total`` on a device, where nothing calls."""


@dataclass(frozen=True)
class Measure:
    """A range ``[start, end)`` of a trace, in ns since its origin."""

    start: int
    end: int
    devices: tuple[Busy, ...]
    """Every device of the trace, including idle ones."""
    threads: tuple[Busy, ...]
    """Threads with any operator or call in the range, busiest first."""
    names: tuple[NameTime, ...]
    """By ``own``; the file's names, not yet safe to show."""

    @property
    def duration(self) -> int:
        """Length of the range, ns."""
        return self.end - self.start


def measure(
    trace: Trace, start: int, end: int, rank: int = NONE, without: Collection[int] = ()
) -> Measure:
    """Measure ``[start, end)``: each event counts with its part inside. For merged ranks, all of
    them, or only ``rank``; ``without`` are tracks that do not count. Raises ValueError if the range
    ends before it starts."""
    if end < start:
        raise ValueError(f"a range from {start} to {end}")
    tracks = [at for at, track in enumerate(trace.tracks)
              if rank in (NONE, track.rank) and at not in without]  # fmt: skip
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
        tuple(sorted(threads, key=lambda thread: (-thread.time, thread.track))),
        tuple(sorted(_names(trace, rows, begins, ends), key=lambda name: (-name.own, name.name))),
    )


def _touching(trace: Trace, start: int, end: int, tracks: Sequence[int]) -> Int64:
    """Rows of ``tracks`` with any part between ``start`` and ``end``."""
    bounds = track_bounds(trace).tolist()
    parts = [np.zeros(0, dtype=np.int64)]
    for low, high in [(bounds[at], bounds[at + 1]) for at in tracks]:
        # An int64: for a Python int the whole column would be converted.
        stop = low + int(np.searchsorted(trace.start[low:high], np.int64(end)))
        inside = (trace.ends_of(slice(low, stop)) > start) | (trace.start[low:stop] >= start)
        parts.append(np.flatnonzero(inside) + low)
    return np.concatenate(parts)


def _devices(
    trace: Trace, tracks: Sequence[int], rows: Int64, begins: Int64, ends: Int64
) -> Iterator[Busy]:
    of_row = kinds.devices(trace)[rows]
    present = {trace.tracks[at].device for at in tracks if trace.tracks[at].is_device}
    for device in sorted(present):
        mine = of_row == device
        yield Busy(device, NONE, union(begins[mine], ends[mine]).total, int(mine.sum()))


def _threads(trace: Trace, rows: Int64, begins: Int64, ends: Int64) -> Iterator[Busy]:
    of_row = trace.track[rows]
    for track in np.unique(of_row).tolist():
        mine = of_row == track
        yield Busy(NONE, track, union(begins[mine], ends[mine]).total, int(mine.sum()))


def _names(trace: Trace, rows: Int64, begins: Int64, ends: Int64) -> Iterator[NameTime]:
    """Time by name. Marks on a stream (ranges, waits) are no device work and do not count; rows
    derived from others do not either."""
    activity = kinds.device_activity(trace)[rows]
    counted = activity | kinds.on_thread(trace)[rows]
    rows, inside, on_device = rows[counted], (ends - begins)[counted], activity[counted]
    callers = trace.parent[rows]
    # A call without duration at the very start may have its caller before it.
    called = np.flatnonzero((callers != NONE) & np.isin(callers, rows))
    of_calls = sums(np.searchsorted(rows, callers[called]), inside[called], len(rows))
    own = inside - np.where(on_device, 0, of_calls)
    key = 2 * trace.name[rows].astype(np.int64) + on_device
    keys, group = np.unique(key, return_inverse=True)
    calls = np.bincount(group, minlength=len(keys))
    totals, owns = sums(group, inside, len(keys)), sums(group, own, len(keys))
    for number, count, total, alone in zip(
        keys.tolist(), calls.tolist(), totals.tolist(), owns.tolist(), strict=True
    ):
        yield NameTime(trace.names[number // 2], bool(number % 2), count, total, alone)


@dataclass(frozen=True)
class BusyColumns:
    """The covered share of each column, by a device or the training thread's operators."""

    device: int
    """NONE for the training thread."""
    shares: tuple[float, ...]
    """0 to 1."""


@dataclass(frozen=True)
class StepColumns:
    """One step, cut into columns of equal time."""

    step: Step
    phases: tuple[str, ...]
    """The phase that covers most of each column; empty if none covers any."""
    busy: tuple[BusyColumns, ...]
    """An entry for each device with work in the trace; without a device, the training thread."""
    gaps: tuple[Gap, ...]
    """Gaps of the first device within the step, longest first."""

    def column_of(self, time: int) -> int:
        """The column that contains ``time``, ns since the trace's origin; else the nearest."""
        count = len(self.phases)
        at = (time - self.step.start) * count // max(self.step.duration, 1)
        return min(max(int(at), 0), count - 1)


def step_columns(analysis: TraceAnalysis, columns: int) -> StepColumns | None:
    """The newest whole step; None if no step is marked, or for merged ranks."""
    if not analysis.steps or analysis.ranks or columns < 1:
        return None
    # Device and host use the same clock here, so that a gap is drawn below what the host does.
    step = max(analysis.steps, key=lambda other: other.start)
    edges = np.linspace(step.start, step.end, columns + 1).astype(np.int64)
    trace = analysis.trace
    busy = tuple(
        BusyColumns(device, tuple(_shares(intervals, edges).tolist()))
        for device, intervals in _working(trace).items()
    )
    first = busy[0].device if busy else NONE
    gaps = (gap for gap in analysis.gaps if gap.device == first)
    within = tuple(gap for gap in gaps if gap.start < step.end and gap.end > step.start)
    return StepColumns(step, _phases(trace, edges), busy, within)


def _phases(trace: Trace, edges: npt.NDArray[np.int64]) -> tuple[str, ...]:
    phases = find_phases(trace)
    names = ("", *phases)
    nothing = np.zeros(len(edges) - 1)
    covered = np.stack([nothing, *(_shares(part, edges) for part in phases.values())])
    return tuple(names[at] for at in covered.argmax(axis=0).tolist())


@once
def _working(trace: Trace) -> dict[int, Intervals]:
    """When each device had work; without devices, when the training thread was in an operator."""
    near = kinds.believable(trace) if len(trace) else np.zeros(0, dtype=bool)
    rows = np.flatnonzero(kinds.device_activity(trace) & near)
    if not len(rows):
        mask = kinds.operators(trace) & (trace.track == main_track(trace)) & near
        return {NONE: kinds.busy(trace, mask)}
    devices = kinds.devices(trace)[rows]
    numbers = np.unique(devices).tolist()[:8]
    of_each = {int(number): rows[devices == number] for number in numbers}
    return {n: kinds.busy(trace, mine) for n, mine in of_each.items()}


def _shares(intervals: Intervals, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Covered share of each column."""
    lengths = np.maximum(np.diff(edges), 1)
    return intervals.within(edges[:-1], edges[1:]) / lengths


# ``links.link`` joins all rows at once; this answers a key press on a trace of ten million rows.

_AT_ONCE = 1 << 14
"""Rows inside a call examined at a time: the first launch is usually early."""


@dataclass(frozen=True, eq=False)
class _ByCorrelation:
    """Rows in order of their correlation id, then in order of the trace."""

    ids: Ints
    rows: Int64

    @staticmethod
    def of(trace: Trace, among: Mask) -> _ByCorrelation:
        rows = np.flatnonzero(among & (trace.correlation != NONE))
        rows = rows[np.argsort(trace.correlation[rows], kind="stable")]
        return _ByCorrelation(trace.correlation[rows], rows)

    def all_of(self, number: int) -> Int64:
        # In the column's own type: else the whole column would be converted.
        key = self.ids.dtype.type(number)
        low, high = (int(np.searchsorted(self.ids, key, side)) for side in ("left", "right"))
        return self.rows[low:high]

    def holds(self, numbers: Ints) -> Mask:
        places = np.searchsorted(self.ids, numbers)
        mask: Mask = np.zeros(len(numbers), dtype=bool)
        if len(self.ids):
            mask = (self.ids[np.minimum(places, len(self.ids) - 1)] == numbers) & (numbers != NONE)
        return mask


class Launches:
    """The launches of a trace, sorted once (1 s for ten million rows that are all launches)."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._work = _ByCorrelation.of(trace, kinds.device_activity(trace))
        self._calls = _ByCorrelation.of(trace, kinds.launches(trace))

    def launched(self, row: int) -> Int64:
        """Device activity launched by ``row``, else by the first launching call inside it, by
        start: several rows for a graph. Empty if none is in the trace."""
        for rows in self._inside(row):
            joined = self._work.holds(self._trace.correlation[rows])
            if joined.any():
                launch = int(rows[int(np.argmax(joined))])
                work = self._work.all_of(int(self._trace.correlation[launch]))
                return work[np.argsort(self._trace.start[work], kind="stable")]
        return np.zeros(0, dtype=np.int64)

    def launching(self, row: int) -> int:
        """The call that launched the device activity ``row``; NONE if not in the trace."""
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
    """Number of rows, all consecutive, that begin in the call ``row`` on its thread, with
    itself."""
    high = int(np.searchsorted(trace.track, trace.track[row], side="right"))
    end = np.int64(trace.start[row] + trace.duration[row])
    return max(int(np.searchsorted(trace.start[row:high], end, side="right")), 1)
