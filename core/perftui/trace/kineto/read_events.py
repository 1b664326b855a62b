"""Reads the events of a file, piece by piece: with the compiled scanner, or in Python."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from perftui.trace.columns import native
from perftui.trace.kineto.damaged_text import fields_behind, holds_event, recover
from perftui.trace.kineto.events import (
    COMPLETE,
    EVENTS,
    NOT_STRICT,
    OBJECT,
    ROWS,
    Event,
    Id,
    event_of,
)
from perftui.trace.model import MEMORY_COLUMNS, SPAN, Int64, Ints

_TEXT = msgspec.json.Decoder(str)
_IDS = msgspec.json.Decoder(tuple[Id, Id])

Values = tuple[list[Any], list[Any], list[Any]]
"""The scanner's texts by number: names, categories, and tracks as process and thread; None for an
invalid text."""

_TABLES = ("name", "category", "track")


@dataclass(frozen=True, eq=False)
class Scanned:
    """Consecutive events of the file."""

    columns: dict[str, Ints]
    """``perftui.trace.kineto.columns.COLUMNS`` of the rows, with indices into the scanner's
    ``Values`` for ``name``, ``category`` and ``track``; start and end of each row's event in
    ``text``."""
    memory: dict[str, Int64]
    """Columns of ``MemoryEvents``, times as in the file, the thread as an index into ``Values``."""
    metadata: list[Event]
    events: int
    """Number of events of any kind."""
    complete: int
    """Number of events with a duration, including those that are no rows."""
    text: bytes
    offset: int
    """Start of the text in the (inflated) file."""
    length: int
    strict: bool = True

    def event_at(self, row: int) -> Event:
        """The event of one row."""
        begin, stop = self.columns["begin"][row], self.columns["stop"][row]
        (event,) = EVENTS.decode(b"[" + self.text[begin:stop] + b"]")
        return event


def open_scanner() -> Scanner | None:
    """A scanner for one file; None where the installation has no compiled library."""
    library = native.compiled()
    return Scanner(library) if library else None


class Scanner:
    """Numbers texts from the first piece to the last; holds memory of C until it is released."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.values: Values = ([], [], [])
        self._bad: tuple[list[int], list[int], list[int]] = ([], [], [])
        """Numbers of invalid texts, by table."""
        self._library = library
        self._handle = library.perftui_scanner_open()
        if not self._handle:
            raise MemoryError
        self._columns: dict[str, Any] = {}
        self._output = native.Output()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.perftui_scanner_close(self._handle)

    def scan(self, text: bytes, offset: int, length: int) -> Scanned | None:
        """The events of ``text``, an array; None if it holds anything unusual.

        The text is at ``offset`` of the file and takes ``length`` bytes there.
        """
        output, room = self._output, len(text) // 40 + 64
        if room > output.room:
            wide = (*native.Output.WIDE, *native.Output.MEMORY)
            self._columns = {name: np.empty(room, np.int64) for name in wide}
            self._columns |= {name: np.empty(room, np.int32) for name in native.Output.NARROW}
            for name, column in self._columns.items():
                setattr(output, name, column.ctypes.data)
            output.room = room
        if not self._library.perftui_scan(self._handle, text, len(text), output):
            return None
        begins, stops = self._columns["metadata_begin"], self._columns["metadata_stop"]
        spans = [slice(begins[at], stops[at]) for at in range(output.metadata)]
        try:
            metadata = EVENTS.decode(b"[" + b",".join(text[span] for span in spans) + b"]")
        except NOT_STRICT:
            return None
        names = (*native.Output.WIDE, *native.Output.NARROW[:5])
        columns = {name: self._columns[name][: output.rows].copy() for name in names}
        memory = {
            name: self._columns[f"memory_{name}"][: output.memory].copy() for name in MEMORY_COLUMNS
        }
        if not self._understood(columns, memory["track"]):
            return None
        return Scanned(
            columns,
            memory=memory,
            metadata=metadata,
            events=output.events,
            complete=output.complete,
            text=text,
            offset=offset,
            length=length,
        )

    def _understood(self, columns: Mapping[str, Any], threads: Int64) -> bool:
        """Add new texts to ``values``; whether all texts of rows and ``threads`` are valid."""
        understood = True
        for table, column in enumerate(_TABLES):
            values, bad = self.values[table], self._bad[table]
            count = self._library.perftui_scanner_count(self._handle, table)
            for number in range(len(values), count):
                values.append(self._value(table, number))
                if values[number] is None:
                    bad.append(number)
            understood &= not bad or not np.isin(columns[column], bad).any()
        unknown = self._bad[_TABLES.index("track")]
        return understood and not (unknown and np.isin(threads, unknown).any())

    def _value(self, table: int, number: int) -> Any:
        length = ctypes.c_int64()
        address = self._library.perftui_scanner_text(self._handle, table, number, length)
        text = ctypes.string_at(address, length.value)
        try:
            if _TABLES[table] == "track":
                return _IDS.decode(b"[" + text + b"]")
            return _TEXT.decode(b'"' + text + b'"')
        except NOT_STRICT:
            return None


_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_WINDOW = 16 * 1024

_GIVE_UP = 16 * 1024 * 1024
"""Bytes without one readable event after which the text is dropped rather than kept growing."""

_TAIL_LIMIT = 64 * 1024 * 1024


@dataclass
class Batch:
    """Consecutive events of the file."""

    events: list[Event]
    text: bytes
    """Their text, as an array; empty if that is no valid JSON."""
    offset: int
    """Start of their text in the (inflated) file."""
    length: int
    strict: bool
    """Whether the text is plain JSON, or had to be read event by event."""
    starts: list[int] = field(default_factory=list)
    """Start of each event, counted from ``offset``; empty if strict."""
    raw: bytes = b""
    """The file's text, ``length`` bytes; empty if strict."""

    def offset_of(self, number: int) -> int:
        """Offset of one event of the batch in the (inflated) file."""
        starts = recover(self.text[1:-1], last=True).starts if self.strict else self.starts
        return self.offset + starts[number]


@dataclass
class Batches:
    """Decodes the array of events piece by piece; its attributes are final when the pieces end."""

    offset: int
    """Start of the first event in the (inflated) file."""
    scanner: Scanner | None = None
    """Reads plain events, several times as fast."""
    skipped: list[int] = field(default_factory=list)
    """Offsets in the file of unreadable events."""
    repaired: list[int] = field(default_factory=list)
    """Offsets in the file of invalid JSON that was read."""
    cut: int | None = None
    """Offset in the file of the event that its end cuts off."""
    closed: bool = False
    """Whether the array ended with its bracket."""
    tail: bytes = b""
    """The text after the array."""
    _text: bytes = b""

    def decode(self, pieces: Iterable[bytes]) -> Iterator[Batch | Scanned]:
        """All events, in file order."""
        for piece in pieces:
            if not self.closed:
                self._text += piece
            elif len(self.tail) < _TAIL_LIMIT:
                self.tail += piece
                if len(self.tail) >= _TAIL_LIMIT:
                    self._reopened()
            batch = None if self.closed else self._whole_events()
            if batch is not None:
                yield batch
        yield from self._rest()
        while self._reopened():
            yield from self._rest()

    def _rest(self) -> Iterator[Batch | Scanned]:
        batch = self._whole_events()
        if batch is not None:
            yield batch
        if self._text and not self.closed:
            yield self._recovered(last=True)

    def _reopened(self) -> bool:
        """Go on after a bracket that did not close the array: events follow, and no fields."""
        if not self.closed or fields_behind(self.tail) is not None or not holds_event(self.tail):
            return False
        self.closed, self._text, self.tail = False, self.tail, b""
        return True

    def _whole_events(self) -> Batch | Scanned | None:
        """The batch of all complete events so far, if any."""
        cut = last_boundary(self._text)
        if cut is None:
            return self._recovered(last=False) if len(self._text) > _GIVE_UP else None
        text = b"[" + self._text[: cut[0]] + b"]"
        scanned = self.scanner.scan(text, self.offset, cut[1]) if self.scanner else None
        if scanned is not None:
            self._advance(cut[1])
            return scanned
        try:
            events = EVENTS.decode(text)
        except NOT_STRICT:
            # The cut lies inside an event, the array ends here, or an event is malformed.
            return self._recovered(last=False)
        batch = Batch(events, text, self.offset, cut[1], strict=True)
        self._advance(cut[1])
        return batch

    def _recovered(self, last: bool) -> Batch:
        result = recover(self._text, last)
        if not result.consumed and len(self._text) > _GIVE_UP:
            result.consumed, result.skipped = len(self._text), [0]
        self.skipped += [self.offset + offset for offset in result.skipped]
        self.repaired += [self.offset + offset for offset in result.repaired]
        self.cut = None if result.cut is None else self.offset + result.cut
        events = [event_of(fields) for fields in result.objects]
        # At damaged gzip another pass may end a few bytes earlier: none of the text is missing then
        # if it ends before the event that was cut.
        length = result.consumed if result.cut is None else result.cut
        batch = Batch(events, b"", self.offset, length, False, result.starts, self._text[:length])
        self._advance(result.consumed)
        if result.closed:
            self.closed, self.tail, self._text = True, self._text, b""
        return batch

    def _advance(self, length: int) -> None:
        self.offset += length
        self._text = self._text[length:]


def last_boundary(text: bytes) -> tuple[int, int] | None:
    """End of the last event but one and start of the last, judged by punctuation alone.

    The cut is right exactly if the text before it parses: an array cut inside a string or a nested
    value is no JSON.
    """
    window = _WINDOW
    while True:
        begin = max(0, len(text) - window)
        matches = list(_BOUNDARY.finditer(text, begin))
        if matches:
            return matches[-1].start() + 1, matches[-1].end()
        if begin == 0:
            return None
        window *= 8


def arguments_in(text: bytes, strict: bool, rows: Sequence[int]) -> tuple[int, list[Any]]:
    """Number of rows in one batch, and the ``args`` of some of them, by number."""
    if strict:
        try:
            events = ROWS.decode(b"[" + text.rstrip(b", \t\r\n") + b"]")
            texts = [event.args for event in events if is_row(event.ph, event.cat)]
            valid = [row for row in rows if row < len(texts)]
            return len(texts), [OBJECT.decode(texts[row]) for row in valid]
        except NOT_STRICT:
            # Arguments that are no columns were skipped before without decoding them.
            pass
    objects = recover(text, last=True, fraction=float).objects
    args = [e.get("args", {}) for e in objects if is_row(e.get("ph"), e.get("cat"))]
    return len(args), [args[row] for row in rows if row < len(args)]


def is_row(kind: Any, category: Any) -> bool:
    """``becomes_row`` for an event with that ``ph`` and ``cat``, without constructing one: a piece
    holds a thousand."""
    return kind == COMPLETE and (category is None or str(category).lower() != SPAN)
