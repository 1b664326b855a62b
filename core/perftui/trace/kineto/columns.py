"""Columns of a trace while it is being read: appended to batch by batch, then put in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.categories import SPAN, normalise
from perftui.trace.columns.growable_array import GrowableArray
from perftui.trace.kineto import identifiers, times
from perftui.trace.kineto.batches import Batch
from perftui.trace.kineto.events import COMPLETE, TIMES, Event
from perftui.trace.kineto.tracks import Numbering, Side, TrackTable, label, side_of
from perftui.trace.model import MEMORY_COLUMNS, NONE, Int32, Int64, Ints

METADATA = "M"
INSTANT = "i"
MEMORY = "[memory]"
"""Name of the instants at which an allocator did something."""
_PAIRED = frozenset("BE")
_KNOWN = frozenset("XMBEIiCbnesftSTpFPNODVvRc(),")
"""Every kind of event that the trace event format names."""


def becomes_row(event: Event) -> bool:
    """Whether an event is a row: it has a duration, and is not the recording itself."""
    return event.ph == COMPLETE and (event.cat is None or event.cat.lower() != SPAN)


@dataclass
class Tally:
    """Events with one fault."""

    count: int = 0
    first: int | None = None
    """Where in the file (inflated) the first of them begins."""

    def note(self, batch: Batch, faulty: Sequence[Event]) -> None:
        """Count events of a batch."""
        if faulty and self.first is None:
            number = next(i for i, event in enumerate(batch.events) if event is faulty[0])
            self.first = batch.offset_of(number)
        self.count += len(faulty)


COLUMNS = ("start", "duration", "name", "category", "track", "correlation", "external_id", "bytes")
"""What is kept of each row, as in ``Trace``."""


@dataclass
class Columns:
    """What has been read so far."""

    rows: dict[str, GrowableArray] = field(
        default_factory=lambda: {name: GrowableArray() for name in COLUMNS}
    )
    """In file order, by name."""
    memory: dict[str, GrowableArray] = field(
        default_factory=lambda: {name: GrowableArray() for name in MEMORY_COLUMNS}
    )
    """Columns of ``MemoryEvents`` in file order, times as in the file, threads by ``threads``."""
    threads: dict[tuple[str, str], int] = field(default_factory=Numbering)
    """Process and thread of what allocators did: it makes no track, rows do."""
    names: dict[str, int] = field(default_factory=Numbering)
    categories: dict[tuple[str | None, str], int] = field(default_factory=Numbering)
    """By spelling and, where there is none, by process."""
    tracks: TrackTable = field(default_factory=TrackTable)
    events: int = 0
    """Events of any kind."""
    complete_events: int = 0
    """Events with a duration, those that are no rows too."""
    untimed: Tally = field(default_factory=Tally)
    """Events left out because their time is no number."""
    unmeasured: Tally = field(default_factory=Tally)
    """Events whose duration is no number, and counts as zero."""
    negative: Tally = field(default_factory=Tally)
    """Events whose duration is below zero, and counts as zero."""
    unpaired: Tally = field(default_factory=Tally)
    """Begin and end events, which PyTorch does not write."""
    unknown: Tally = field(default_factory=Tally)
    """Events that do not name what they are."""
    _sides: Int32 = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """By category, as far as they were asked for."""

    def so_far(self) -> Columns:
        """A copy of the rows read until now, to be used up while more are read into this one."""
        rows = {name: column.copy() for name, column in self.rows.items()}
        memory = {name: column.copy() for name, column in self.memory.items()}
        return replace(self, rows=rows, memory=memory)

    def add(self, batch: Batch) -> int:
        """Append the rows of a batch; how many there are."""
        others = [event for event in batch.events if event.ph != COMPLETE]
        for event in others:
            if event.ph == METADATA:
                self.tracks.name(event)
        self.unpaired.note(batch, [event for event in others if event.ph in _PAIRED])
        self.unknown.note(batch, [event for event in others if event.ph not in _KNOWN])
        self.events += len(batch.events)
        complete = [event for event in batch.events if event.ph == COMPLETE]
        self.complete_events += len(complete)
        rows = [event for event in complete if becomes_row(event)]
        if rows:
            self._add_rows(rows, batch)
        if any(is_memory(event) for event in others):
            self._add_memory(batch)
        return len(rows)

    def thread(self, process: Any, thread: Any) -> int:
        """The number of a process and thread in ``threads``."""
        return self.threads[label(process), label(thread)]

    def add_memory(self, columns: Mapping[str, Int64]) -> None:
        """Append what allocators did, columns of ``MemoryEvents``."""
        for name, column in self.memory.items():
            column.extend(columns[name])

    def append(
        self, rows: Mapping[str, Ints], sides: Int32, event_of: Callable[[int], Event]
    ) -> None:
        """Take ``COLUMNS`` of a batch; ``event_of`` gives the event of one of its rows."""
        for name, column in self.rows.items():
            column.extend(rows[name])
        self._place(rows["category"], rows["track"], sides == Side.DEVICE, event_of)

    def sides(self, category: Ints) -> Int32:
        """Where events of each category run, as numbers of ``Side``."""
        if len(self._sides) < len(self.categories):
            known = [side_of(normalise(*key)) for key in self.categories]
            self._sides = np.array(known, dtype=np.int32)
        column: Int32 = self._sides[category]
        return column

    def _add_rows(self, rows: list[Event], batch: Batch) -> None:
        start, duration = self._times(rows, batch)
        arguments = [event.args for event in rows]
        external = identifiers.column([each.external_id for each in arguments])
        legacy = identifiers.column([each.legacy_external_id for each in arguments])
        category = self._categories(rows)
        sides = self.sides(category)
        columns: dict[str, Ints] = {
            "start": start,
            "duration": duration,
            "name": _numbers(self.names, [event.name for event in rows]),
            "category": category,
            "track": self._tracks(rows, sides),
            "correlation": identifiers.column([each.correlation for each in arguments]),
            "external_id": np.where(external == NONE, legacy, external),
            "bytes": identifiers.column([each.bytes for each in arguments]),
        }
        self.append(columns, sides, rows.__getitem__)

    def _categories(self, rows: list[Event]) -> Int32:
        return _numbers(
            self.categories,
            [(event.cat, "" if event.cat is not None else label(event.pid)) for event in rows],
        )

    def _tracks(self, rows: list[Event], sides: Int32) -> Int32:
        pairs = zip(rows, sides.tolist(), strict=True)
        return _numbers(self.tracks.index, [(event.pid, event.tid, side) for event, side in pairs])

    def _place(
        self,
        categories: Ints,
        tracks: Ints,
        on_device: npt.NDArray[np.bool_],
        event_of: Callable[[int], Event],
    ) -> None:
        """Notify the tracks' table of rows on devices, as long as it does not know their place."""
        for track in _distinct(tracks[on_device]):
            if self.tracks.is_placed(track):
                continue
            rows = np.flatnonzero(on_device & (tracks == track))
            here = categories[rows]
            for category in _distinct(here):
                first = int(rows[np.argmax(here == category)])
                name = normalise(*list(self.categories)[category])
                self.tracks.place(track, event_of(first), name)

    def _add_memory(self, batch: Batch) -> None:
        events = [event for event in batch.events if is_memory(event)]
        start = times.column([event.ts for event in events])
        if start is None:
            spelled = self._spelled(batch, is_memory)
            start = _filled([times.nanoseconds(pair[0]) for pair in spelled], times.UNTIMED)
        timed = start != times.UNTIMED
        self.untimed.note(batch, [events[row] for row in np.flatnonzero(~timed).tolist()])
        arguments = [event.args for event in events]
        columns = {
            "start": start,
            "change": identifiers.integers([each.change for each in arguments]),
            "device_type": identifiers.integers([each.device_type for each in arguments]),
            "device": identifiers.integers([each.memory_device for each in arguments]),
            "allocated": identifiers.integers([each.allocated for each in arguments]),
            "reserved": identifiers.integers([each.reserved for each in arguments]),
            "address": identifiers.integers([each.address for each in arguments]),
            "track": np.array([self.thread(event.pid, event.tid) for event in events], np.int64),
        }
        self.add_memory({name: column[timed] for name, column in columns.items()})

    def _times(self, rows: list[Event], batch: Batch) -> tuple[Int64, Int64]:
        start = times.column([event.ts for event in rows])
        duration = times.column([event.dur for event in rows])
        if start is None or duration is None:
            start, duration = self._exact_times(rows, batch)
        negative = duration < 0
        self.negative.note(batch, [rows[row] for row in np.flatnonzero(negative).tolist()])
        return start, np.where(negative, 0, duration)

    def _exact_times(self, rows: list[Event], batch: Batch) -> tuple[Int64, Int64]:
        spelled = self._spelled(batch, becomes_row)
        start = [times.nanoseconds(pair[0]) for pair in spelled]
        duration = [times.nanoseconds(pair[1]) for pair in spelled]
        self.untimed.note(batch, _without(rows, start))
        self.unmeasured.note(batch, _without(rows, duration))
        return (
            _filled(start, times.UNTIMED),
            _filled(duration, 0),
        )

    def _spelled(self, batch: Batch, wanted: Callable[[Event], bool]) -> list[tuple[Any, Any]]:
        """Start and duration of the wanted events, with every digit of the file."""
        if not batch.strict:
            return [(event.ts, event.dur) for event in batch.events if wanted(event)]
        texts = zip(batch.events, TIMES.decode(batch.text), strict=True)
        pairs = [(bytes(t.ts), bytes(t.dur)) for event, t in texts if wanted(event)]
        return [(_unquoted(start), _unquoted(duration)) for start, duration in pairs]


def is_memory(event: Event) -> bool:
    """Whether an event is something that an allocator did."""
    return event.ph == INSTANT and event.name == MEMORY


def _filled(values: list[int | None], absent: int) -> Int64:
    return np.array([absent if each is None else each for each in values], dtype=np.int64)


def _without(rows: list[Event], values: list[int | None]) -> list[Event]:
    return [event for event, value in zip(rows, values, strict=True) if value is None]


def _unquoted(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip('"')


def _distinct(numbers: Ints) -> list[int]:
    """Each number once, in order. The first ``np.unique`` of a process imports ``numpy.ma``, which
    takes longer than to read 3 MB."""
    found: list[int] = np.flatnonzero(np.bincount(numbers)).tolist()
    return found


def _numbers(table: dict[Any, int], keys: Sequence[Any]) -> Int32:
    return np.fromiter(map(table.__getitem__, keys), np.int32, len(keys))
