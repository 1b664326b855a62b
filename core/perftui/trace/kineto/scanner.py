"""Reads pieces of plain JSON with the compiled scanner."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from perftui.trace.columns import native
from perftui.trace.kineto.events import EVENTS, NOT_STRICT, Event, Id
from perftui.trace.model import MEMORY_COLUMNS, Int64, Ints

_TEXT = msgspec.json.Decoder(str)
_IDS = msgspec.json.Decoder(tuple[Id, Id])

Values = tuple[list[Any], list[Any], list[Any]]
"""What the scanner's texts mean, by their numbers: names, categories, and tracks as process and
thread; None for one that is no valid text."""

_TABLES = ("name", "category", "track")


@dataclass(frozen=True, eq=False)
class Scanned:
    """Events that follow one another in the file."""

    columns: dict[str, Ints]
    """``perftui.trace.kineto.columns.COLUMNS`` of the rows, with indices into the scanner's
    ``Values`` for ``name``, ``category`` and ``track``; where in ``text`` each row's event begins
    and where it ends."""
    memory: dict[str, Int64]
    """Columns of ``MemoryEvents``, times as in the file, the thread as an index into ``Values``."""
    metadata: list[Event]
    events: int
    """How many events of any kind there are."""
    complete: int
    """How many events have a duration, those that are no rows too."""
    text: bytes
    offset: int
    """Where the text begins in the file (inflated)."""
    length: int
    strict: bool = True

    def event_at(self, row: int) -> Event:
        """One row's event."""
        begin, stop = self.columns["begin"][row], self.columns["stop"][row]
        (event,) = EVENTS.decode(b"[" + self.text[begin:stop] + b"]")
        return event


def open_scanner() -> Scanner | None:
    """A scanner for one file; None where the installation has no compiled library."""
    library = native.compiled()
    return Scanner(library) if library else None


class Scanner:
    """Numbers texts from the first piece to the last; holds memory of C until it is let go."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.values: Values = ([], [], [])
        self._bad: tuple[list[int], list[int], list[int]] = ([], [], [])
        """Numbers of the texts, by table, that are not valid."""
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
        """The events of ``text``, an array; None where it holds anything out of the ordinary.

        The text stands at ``offset`` of the file and takes ``length`` bytes there.
        """
        self._make_room(len(text) // 40 + 64)
        output = self._output
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
        """Take new texts into ``values``; whether all of the rows and of ``threads`` are valid."""
        understood = True
        for table, column in enumerate(_TABLES):
            known, bad = self.values[table], self._bad[table]
            count = self._library.perftui_scanner_count(self._handle, table)
            for number in range(len(known), count):
                known.append(self._value(table, number))
                if known[number] is None:
                    bad.append(number)
            understood &= not bad or not np.isin(columns[column], bad).any()
        return understood and not np.isin(threads, self._bad[-1]).any()

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

    def _make_room(self, room: int) -> None:
        if room <= self._output.room:
            return
        wide = (*native.Output.WIDE, *native.Output.MEMORY)
        self._columns = {name: np.empty(room, np.int64) for name in wide}
        self._columns |= {name: np.empty(room, np.int32) for name in native.Output.NARROW}
        for name, column in self._columns.items():
            setattr(self._output, name, column.ctypes.data)
        self._output.room = room
