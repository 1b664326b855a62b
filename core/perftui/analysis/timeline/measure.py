"""What happened between two moments: busy time by device and thread, calls and time by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.grouping import sums
from perftui.analysis.intervals import union
from perftui.trace.categories import PYTHON
from perftui.trace.model import NONE, Int64, Trace


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
    host = _at_work(trace)[rows]
    threads = _threads(trace, rows[host], begins[host], ends[host])
    return Measure(
        start,
        end,
        tuple(_devices(trace, tracks, rows[activity], begins[activity], ends[activity])),
        tuple(sorted(threads, key=lambda one: (-one.time, one.track))),
        tuple(sorted(_names(trace, rows, begins, ends), key=lambda one: (-one.own, one.name))),
    )


def _at_work(trace: Trace) -> kinds.Mask:
    on_thread = kinds.on_thread(trace)
    mask: kinds.Mask = on_thread & ~kinds.ranges(trace) & ~trace.in_category(PYTHON)
    return mask


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
