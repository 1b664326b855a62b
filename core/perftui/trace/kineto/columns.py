"""Columns of a trace while it is read: appended batch by batch, then sorted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import msgspec
import numpy as np

from perftui.trace.columns.arrays import GrowableArray
from perftui.trace.kineto.events import (
    COMPLETE,
    TIMES,
    UNTIMED,
    Event,
    id_column,
    identifier,
    integers,
    nanoseconds,
    time_column,
)
from perftui.trace.kineto.read_events import Batch, Scanned, Values
from perftui.trace.model import (
    CPU_OP,
    DEVICE_ACTIVITY,
    LAUNCHES,
    MEMORY_COLUMNS,
    NONE,
    ON_DEVICE,
    PYTHON,
    SPAN,
    Int32,
    Int64,
    Ints,
    Track,
    normalise,
)


class Side(IntEnum):
    """Side on which an event ran, by its category.

    A thread and a stream can have the same ids: the main thread of a container's first process is 1
    of 1, and so is stream 1 of device 1.
    """

    EITHER = 0
    HOST = 1
    DEVICE = 2


_ON_HOST = (CPU_OP, PYTHON, *LAUNCHES)
_STREAM = re.compile(r"stream\b", re.IGNORECASE)
"""Prefix of PyTorch's names of streams."""

_ALL_DEVICES = "CUDA functions"
"""Process of all kernels in files of PyTorch before Kineto (1.7 and older, and later without it),
whose threads are the devices: streams are unknown."""


class TrackTable:
    """Numbers tracks in order of appearance and collects their names."""

    def __init__(self) -> None:
        self.index = _TrackNumbers()
        """Numbers by process, thread and side."""
        self._process_names: dict[str, str] = {}
        self._thread_names: dict[tuple[str, str, bool], str] = {}
        self._places: dict[int, tuple[bool, int, int]] = {}

    def name(self, event: Event) -> None:
        """Use the name in a metadata event."""
        name = event.args.name
        if not isinstance(name, str) or not name:
            return
        if event.name == "process_name":
            self._process_names[label(event.pid)] = name
        elif event.name == "thread_name":
            is_stream = _STREAM.match(name) is not None
            self._thread_names[label(event.pid), label(event.tid), is_stream] = name

    def place(self, track: int, event: Event, category: str) -> None:
        """Use an event of the device's side: it names the device and stream of its track.

        Those of kernels, copies and sets take precedence over the track's own ids.
        """
        certain = category in DEVICE_ACTIVITY
        place = self._places.get(track)
        if place is not None and (place[0] or not certain):
            return
        device, stream = (
            next((number for number in map(identifier, pair) if number != NONE), NONE)
            for pair in ((event.args.device, event.pid), (event.args.stream, event.tid))
        )
        if event.pid == _ALL_DEVICES and identifier(event.args.device) == NONE:
            device, stream = stream, NONE
        if device != NONE or certain:
            self._places[track] = (certain, max(device, 0) if certain else device, stream)

    def is_placed(self, track: int) -> bool:
        """Whether the track's device is known for certain."""
        return self._places.get(track, (False, NONE, NONE))[0]

    def tracks(self) -> tuple[tuple[Track, ...], Int32]:
        """All tracks, and the index among them of each number that was given out.

        Events of unknown side are on the host if the ids are also a thread's, else on the device if
        they are also a stream's.
        """
        numbers, tracks, order = self.index.numbers, Numbering(), []
        for process, thread, side in numbers:
            sides = (Side.HOST, Side.DEVICE) if side is Side.EITHER else ()
            shown = (side_ for side_ in sides if (process, thread, side_) in numbers)
            order.append(tracks[process, thread, next(shown, side)])
        result = tuple(self._track(process, thread, side) for process, thread, side in tracks)
        return result, np.array(order, dtype=np.int32)

    def _track(self, process: str, thread: str, side: Side) -> Track:
        numbers, of_device = self.index.numbers, side is Side.DEVICE
        _, device, stream = self._places.get(numbers[process, thread, side], (False, NONE, NONE))
        name = self._thread_names.get((process, thread, of_device))
        if name is None:
            other = process, thread, Side.HOST if of_device else Side.DEVICE
            of_other = self._thread_names.get((process, thread, not of_device), "")
            name = "" if other in numbers else of_other
        return Track(
            process=process,
            thread=thread,
            process_name=self._process_names.get(process, ""),
            thread_name=name,
            device=device,
            stream=stream,
        )


class Numbering(dict[Any, int]):
    """Gives each new key the next number."""

    def __missing__(self, key: Any) -> int:
        return self.setdefault(key, len(self))


class _TrackNumbers(dict[tuple[Any, Any, int], int]):
    """By ids as in the file; different spellings of an id share a number."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[tuple[str, str, Side], int] = Numbering()

    def __missing__(self, key: tuple[Any, Any, int]) -> int:
        number = self[key] = self.numbers[label(key[0]), label(key[1]), Side(key[2])]
        return number


def label(value: Any) -> str:
    """A process's or thread's id as text; empty if the file has none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value)


METADATA = "M"
INSTANT = "i"
MEMORY = "[memory]"
"""Name of instants at which an allocator acted."""
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
    """Offset of the first of them in the (inflated) file."""

    def note(self, batch: Batch, faulty: Sequence[Event]) -> None:
        """Count events of a batch."""
        if faulty and self.first is None:
            number = next(i for i, event in enumerate(batch.events) if event is faulty[0])
            self.first = batch.offset_of(number)
        self.count += len(faulty)


COLUMNS = ("start", "duration", "name", "category", "track", "correlation", "external_id", "bytes")
"""Columns of each row, as in ``Trace``."""


@dataclass
class Columns:
    """All columns read so far."""

    rows: dict[str, GrowableArray] = field(
        default_factory=lambda: {name: GrowableArray() for name in COLUMNS}
    )
    """Columns by name, in file order."""
    memory: dict[str, GrowableArray] = field(
        default_factory=lambda: {name: GrowableArray() for name in MEMORY_COLUMNS}
    )
    """Columns of ``MemoryEvents`` in file order, times as in the file, threads by ``threads``."""
    threads: dict[tuple[str, str], int] = field(default_factory=Numbering)
    """Process and thread of allocators' actions: they make no tracks, rows do."""
    names: dict[str, int] = field(default_factory=Numbering)
    categories: dict[tuple[str | None, str], int] = field(default_factory=Numbering)
    """Numbers by spelling or, without one, by process."""
    tracks: TrackTable = field(default_factory=TrackTable)
    events: int = 0
    """Events of any kind."""
    complete_events: int = 0
    """Events with a duration, including those that are no rows."""
    untimed: Tally = field(default_factory=Tally)
    """Events left out because their time is no number."""
    unmeasured: Tally = field(default_factory=Tally)
    """Events whose duration is no number, and counts as zero."""
    negative: Tally = field(default_factory=Tally)
    """Events whose duration is below zero, and counts as zero."""
    unpaired: Tally = field(default_factory=Tally)
    """Begin and end events, which PyTorch does not write."""
    unknown: Tally = field(default_factory=Tally)
    """Events that do not name their kind."""
    _sides: Int32 = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """By category, as far as requested."""

    def so_far(self) -> Columns:
        """A copy of the rows read until now, to be used up while more are read into this one."""
        rows = {name: column.copy() for name, column in self.rows.items()}
        memory = {name: column.copy() for name, column in self.memory.items()}
        return replace(self, rows=rows, memory=memory)

    def add(self, batch: Batch) -> int:
        """Append the rows of a batch; returns their count."""
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
        """Append actions of allocators, columns of ``MemoryEvents``."""
        for name, column in self.memory.items():
            column.extend(columns[name])

    def append(
        self, rows: Mapping[str, Ints], sides: Int32, event_of: Callable[[int], Event]
    ) -> None:
        """Append ``COLUMNS`` of a batch; ``event_of`` gives the event of one of its rows."""
        for name, column in self.rows.items():
            column.extend(rows[name])
        # The tracks' table gets rows on devices until it knows their place.
        tracks, on_device = rows["track"], sides == Side.DEVICE
        for track in _distinct(tracks[on_device]):
            if self.tracks.is_placed(track):
                continue
            rows_here = np.flatnonzero(on_device & (tracks == track))
            categories = rows["category"][rows_here]
            for category in _distinct(categories):
                first = int(rows_here[np.argmax(categories == category)])
                name = normalise(*list(self.categories)[category])
                self.tracks.place(track, event_of(first), name)

    def sides(self, category: Ints) -> Int32:
        """Sides of events of each category, as numbers of ``Side``."""
        if len(self._sides) < len(self.categories):
            # Some, such as annotations, are drawn on both sides.
            names = [normalise(*key) for key in self.categories]
            sides = [Side.DEVICE if name in ON_DEVICE else
                     Side.HOST if name in _ON_HOST else Side.EITHER for name in names]  # fmt: skip
            self._sides = np.array(sides, dtype=np.int32)
        return self._sides[category]

    def _add_rows(self, rows: list[Event], batch: Batch) -> None:
        start, duration = self._times(rows, batch)
        arguments = [event.args for event in rows]
        external = id_column([a.external_id for a in arguments])
        legacy = id_column([a.legacy_external_id for a in arguments])
        category = numbers_of(
            self.categories,
            [(event.cat, "" if event.cat is not None else label(event.pid)) for event in rows],
        )
        sides = self.sides(category)
        tracks = [(e.pid, e.tid, side) for e, side in zip(rows, sides.tolist(), strict=True)]
        columns: dict[str, Ints] = {
            "start": start,
            "duration": duration,
            "name": numbers_of(self.names, [event.name for event in rows]),
            "category": category,
            "track": numbers_of(self.tracks.index, tracks),
            "correlation": id_column([a.correlation for a in arguments]),
            "external_id": np.where(external == NONE, legacy, external),
            "bytes": id_column([a.bytes for a in arguments]),
        }
        self.append(columns, sides, rows.__getitem__)

    def _add_memory(self, batch: Batch) -> None:
        events = [event for event in batch.events if is_memory(event)]
        start = time_column([event.ts for event in events])
        if start is None:
            spelled = self._spelled(batch, is_memory)
            start = _filled([nanoseconds(pair[0]) for pair in spelled], UNTIMED)
        timed = start != UNTIMED
        self.untimed.note(batch, [events[row] for row in np.flatnonzero(~timed).tolist()])
        arguments = [event.args for event in events]
        columns = {
            "start": start,
            "change": integers([a.change for a in arguments]),
            "device_type": integers([a.device_type for a in arguments]),
            "device": integers([a.memory_device for a in arguments]),
            "allocated": integers([a.allocated for a in arguments]),
            "reserved": integers([a.reserved for a in arguments]),
            "address": integers([a.address for a in arguments]),
            "track": np.array([self.thread(event.pid, event.tid) for event in events], np.int64),
        }
        self.add_memory({name: column[timed] for name, column in columns.items()})

    def _times(self, rows: list[Event], batch: Batch) -> tuple[Int64, Int64]:
        start = time_column([event.ts for event in rows])
        duration = time_column([event.dur for event in rows])
        if start is None or duration is None:
            spelled = self._spelled(batch, becomes_row)
            starts = [nanoseconds(pair[0]) for pair in spelled]
            durations = [nanoseconds(pair[1]) for pair in spelled]
            for tally, values in ((self.untimed, starts), (self.unmeasured, durations)):
                pairs = zip(rows, values, strict=True)
                tally.note(batch, [event for event, value in pairs if value is None])
            start, duration = _filled(starts, UNTIMED), _filled(durations, 0)
        negative = duration < 0
        self.negative.note(batch, [rows[row] for row in np.flatnonzero(negative).tolist()])
        return start, np.where(negative, 0, duration)

    def _spelled(self, batch: Batch, chosen: Callable[[Event], bool]) -> list[tuple[Any, Any]]:
        """Start and duration of the wanted events, with every digit of the file."""
        if not batch.strict:
            return [(event.ts, event.dur) for event in batch.events if chosen(event)]
        texts = zip(batch.events, TIMES.decode(batch.text), strict=True)

        def unquoted(text: msgspec.Raw) -> str:
            return bytes(text).decode("utf-8", "replace").strip('"')

        return [(unquoted(text.ts), unquoted(text.dur)) for event, text in texts if chosen(event)]


def is_memory(event: Event) -> bool:
    """Whether an event is an action of an allocator."""
    return event.ph == INSTANT and event.name == MEMORY


def _filled(values: list[int | None], absent: int) -> Int64:
    return np.array([absent if value is None else value for value in values], dtype=np.int64)


def _distinct(numbers: Ints) -> list[int]:
    """Distinct numbers, in order. The first ``np.unique`` of a process imports ``numpy.ma``, which
    takes longer than to read 3 MB."""
    result: list[int] = np.flatnonzero(np.bincount(numbers)).tolist()
    return result


def numbers_of(table: dict[Any, int], keys: Sequence[Any]) -> Int32:
    """The number in ``table`` of each of ``keys``."""
    return np.fromiter(map(table.__getitem__, keys), np.int32, len(keys))


class ScannedColumns:
    """Translates the scanner's numbers of names, categories and tracks to those of the columns."""

    def __init__(self, columns: Columns, values: Values) -> None:
        self._columns = columns
        names, categories, self._ids = values
        self._names = _Translation(lambda n: columns.names[names[n]])
        self._categories = _Translation(lambda n: columns.categories[categories[n], ""])
        self._tracks = _Translation(
            lambda n: columns.tracks.index[self._ids[n // len(Side)] + (n % len(Side),)]
        )
        self._threads = _Translation(lambda n: columns.thread(*self._ids[n]))

    def add(self, scanned: Scanned) -> int:
        """Append the rows; returns their count."""
        for event in scanned.metadata:
            self._columns.tracks.name(event)
        self._columns.events += scanned.events
        self._columns.complete_events += scanned.complete
        memory = scanned.memory
        if len(memory["track"]):
            track = self._threads.of(memory["track"]).astype(np.int64)
            self._columns.add_memory({**memory, "track": track})
        columns = scanned.columns
        if not len(columns["start"]):
            return 0
        category = self._categories.of(columns["category"])
        sides = self._columns.sides(category)
        numbers = {
            "name": self._names.of(columns["name"]),
            "category": category,
            "track": self._tracks.of(columns["track"] * len(Side) + sides),
        }
        self._columns.append({**columns, **numbers}, sides, scanned.event_at)
        return len(category)


class _Translation:
    """An array that is filled as numbers appear, in that order."""

    def __init__(self, number_of: Callable[[int], int]) -> None:
        self._number_of = number_of
        self._translated = np.full(64, -1, dtype=np.int32)

    def of(self, numbers: Ints) -> Int32:
        """The columns' numbers."""
        largest = int(numbers.max())
        if largest >= len(self._translated):
            longer = np.full(2 * largest + 1, -1, dtype=np.int32)
            longer[: len(self._translated)] = self._translated
            self._translated = longer
        result = self._translated[numbers]
        new = numbers[result < 0]
        if len(new):
            for number in dict.fromkeys(new.tolist()):
                self._translated[number] = self._number_of(number)
            result = self._translated[numbers]
        return result
