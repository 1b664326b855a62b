"""Columns of an export while it is being read, batch by batch, and the Trace that they become."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.cache import touch
from perftui.trace.columns.arrays import nest_by_category, order, time_outliers
from perftui.trace.kineto.columns import Numbering
from perftui.trace.kineto.events import LIMIT
from perftui.trace.model import (
    NONE,
    Int32,
    Int64,
    LoadWarning,
    Trace,
    TraceError,
    Track,
)
from perftui.trace.nsys.database import (
    COPY_KINDS,
    EVENT_TYPES,
    MEMORY_KINDS,
    Database,
    Rows,
    StringTables,
    quoted,
)
from perftui.trace.nsys.names import UNSIGNED_NONE, Label


def process_of(owner: int) -> int:
    """The pid in a global id of a process or thread (NVIDIA, "SQLite Export Schema Reference",
    serialized process and thread identifiers)."""
    return (owner >> 24) & 0xFFFFFF


def thread_of(owner: int) -> int:
    """The tid in a global id of a thread."""
    return owner & 0xFFFFFF


class TrackTable(dict[tuple[int, int, int], int]):
    """Numbers tracks in order of appearance, by device, stream and global id of the owner.

    ``gpus`` is the number in the machine of a process's device, by (pid, device), where the file
    says: each process counts the devices that it was given from 0.
    """

    def __init__(self, gpus: dict[tuple[int, int], int]) -> None:
        super().__init__()
        self._gpus = gpus
        self._index = Numbering()

    def __missing__(self, place: tuple[int, int, int]) -> int:
        number = self[place] = self._index[self._key(*place)]
        return number

    def _key(self, device: int, stream: int, owner: int) -> tuple[int, int, int]:
        """Device, stream and thread, or process for what runs on a device."""
        if device == NONE:
            return NONE, NONE, owner
        gpu = max(self._gpus.get((process_of(owner), device), device), 0)
        return gpu, NONE if stream == UNSIGNED_NONE else stream, owner >> 24

    def tracks(self, names: Names) -> tuple[Track, ...]:
        """All tracks, by number."""
        return tuple(_track(key, names) for key in self._index)


@dataclass(frozen=True)
class Names:
    """What the file calls processes (by global id without the thread) and threads."""

    processes: dict[int, str]
    threads: dict[int, str]


def read_names(texts: StringTables, database: Database, connection: sqlite3.Connection) -> Names:
    """Read the names of processes and threads, of the whole machine where nsys listed it.

    Raises sqlite3.DatabaseError where they are damaged.
    """
    processes, threads = {}, {}
    if database.has("PROCESSES", "globalPid", "name"):
        rows = connection.execute("select globalPid, name from PROCESSES where name is not null")
        processes = {owner >> 24: str(name) for owner, name in rows if isinstance(owner, int)}
    if database.has("ThreadNames", "globalTid", "nameId"):
        # A thread that was renamed has several: that of the highest priority counts.
        order = " order by priority" if database.has("ThreadNames", "priority") else ""
        rows = connection.execute(f"select globalTid, nameId from ThreadNames{order}")  # noqa: S608 - constants
        threads = {owner: texts.string(name) or "" for owner, name in rows.fetchall()}
    return Names(processes, threads)


def _track(key: tuple[int, int, int], names: Names) -> Track:
    device, stream, owner = key
    if device != NONE:
        return Track(
            process=str(process_of(owner << 24)),
            thread=str(stream),
            process_name=names.processes.get(owner, ""),
            device=device,
            stream=stream,
        )
    return Track(
        process=str(process_of(owner)),
        thread=str(thread_of(owner)),
        process_name=names.processes.get(owner >> 24, ""),
        thread_name=names.threads.get(owner, ""),
    )


ENDLESS = -(2**62)
"""End of a row that has none."""

CONTEXT = 5
"""Where rows have the context that they ran in."""

DEVICE = 6
"""Where rows have device, stream and owner: see ``place``."""

OWNER = 8
"""Where rows have the global id of their process or thread."""

KEYS = 9
"""Where the columns begin that rows are named by."""


_USED = (OWNER, CONTEXT, DEVICE)


def place(
    database: Database, table: str, owner: str, on_device: bool, device: str = ""
) -> tuple[str, ...]:
    """SQL of what is read of every row, next to its id and before what names it.

    ``device`` is SQL of the device, where that is not simply a column of the table.
    """

    def column(name: str) -> str:
        return database.column(table, name)

    return (
        column("start"),
        f'ifnull(cast("end" as integer), {ENDLESS})',
        column("correlationId"),
        column("bytes"),
        column("contextId") if on_device else str(NONE),
        f"max({device or column('deviceId')}, 0)" if on_device else str(NONE),
        column("streamId") if on_device else str(NONE),
        column(owner),
    )


@dataclass
class Part:
    """Rows of one batch."""

    start: Int64
    duration: Int64
    name: Int32
    category: Int32
    track: Int32
    correlation: Int64
    bytes: Int64
    table: Int32
    row_id: Int64


@dataclass
class Columns:
    """What has been read so far."""

    tracks: TrackTable
    parts: list[Part] = field(default_factory=list)
    names: Numbering = field(default_factory=Numbering)
    categories: Numbering = field(default_factory=Numbering)
    tables: Numbering = field(default_factory=Numbering)
    processes: Numbering = field(default_factory=Numbering)
    contexts: dict[tuple[int, int], int] = field(default_factory=dict)
    """Device of each context, by the global id of its process and its own id."""
    endless: int = 0
    """Rows left out because they never end."""
    negative: int = 0
    """Rows that end before they start, and count as lasting 0."""
    untimed: int = 0
    """Rows left out because they start or end where no time can be."""

    @property
    def rows(self) -> int:
        """How many have become events."""
        return sum(len(part.start) for part in self.parts)

    def so_far(self) -> Columns:
        """A copy of the rows, which can be used up while more are added here."""
        return replace(self, parts=[replace(part) for part in self.parts])

    def span(self) -> tuple[int, int]:
        """First start and last end of all rows; empty where there are none."""
        starts = [int(part.start.min()) for part in self.parts]
        ends = [int((part.start + part.duration).max()) for part in self.parts]
        return min(starts, default=0), max(ends, default=0)

    def add(self, table: str, rows: Rows, label: Callable[..., Label]) -> int:
        """Append a batch of rows (id, ``place``, keys); ``label`` names one by its keys.

        Returns how many became events.
        """
        if not rows:
            return 0
        columns = list(zip(*rows, strict=True))
        numbers = [np.array(column, dtype=np.int64) for column in columns[:KEYS]]
        row_id, start, end, correlation, size, _, device, _, owner = numbers
        if device[0] != NONE:
            for who, context, on in set(zip(*(columns[i] for i in _USED), strict=True)):
                if context != NONE:
                    self.contexts.setdefault((who, context), on)
        named = [label(*keys) for keys in zip(*columns[KEYS:], strict=True)]
        part = Part(
            start=start,
            duration=np.maximum(end - start, 0),
            name=_numbers(self.names, [each.name for each in named]),
            category=_numbers(self.categories, [each.category for each in named]),
            track=_numbers(self.tracks, zip(*columns[DEVICE:KEYS], strict=True)),
            correlation=self._correlation(correlation, owner),
            bytes=size,
            table=np.full(len(rows), self.tables[table], dtype=np.int32),
            row_id=row_id,
        )
        return self._keep(part, end)

    def _keep(self, part: Part, end: Int64) -> int:
        # Exports of old wrote 0 for the end of what never ended, where new ones have NULL.
        finished = (end > 0) | ((part.start <= 0) & (end != ENDLESS))
        timed = _possible(part.start) & (_possible(end) | ~finished)
        kept = finished & timed
        self.endless += int(np.count_nonzero(timed & ~finished))
        self.untimed += int(np.count_nonzero(~timed))
        self.negative += int(np.count_nonzero(kept & (end < part.start)))
        if not kept.all():
            part = Part(**{name: column[kept] for name, column in vars(part).items()})
        if len(part.start):
            self.parts.append(part)
        return len(part.start)

    def joined(self, name: str) -> Any:
        """One column whole; its parts are let go, so that no more than one column exists twice."""
        joined = np.concatenate([getattr(part, name) for part in self.parts])
        for part in self.parts:
            # Not a part of ``joined``: a view keeps the whole array.
            setattr(part, name, np.empty(0, dtype=joined.dtype))
        return joined

    def _correlation(self, correlation: Int64, owner: Int64) -> Int64:
        """Ids are counted by each process: those of the second and later ones are moved apart."""
        found, inverse = np.unique(owner >> 24, return_inverse=True)
        number = np.array([self.processes[each] for each in found.tolist()], dtype=np.int64)
        return np.where(correlation > 0, correlation + (number[inverse] << 32), NONE)


def _possible(times: Int64) -> npt.NDArray[np.bool_]:
    return (times > -LIMIT) & (times < LIMIT)


def _numbers(table: dict[Any, int], keys: Iterable[Any]) -> Int32:
    return np.fromiter(map(table.__getitem__, keys), np.int32)


_STRINGS = ("shortName", "demangledName", "mangledName", "nameId", "textId", "jsonTextId")
_LABELS = {
    "copyKind": COPY_KINDS,
    "srcKind": MEMORY_KINDS,
    "dstKind": MEMORY_KINDS,
    "memKind": MEMORY_KINDS,
    "eventType": EVENT_TYPES,
    "launchType": "ENUM_CUDA_KERNEL_LAUNCH_TYPE",
    "overheadType": "ENUM_CUPTI_OVERHEAD_TYPE",
}


@dataclass(frozen=True, eq=False)
class RowPlaces:
    """Where in an export the row behind each row of the trace is."""

    tables: tuple[str, ...]
    table: Int32
    """The index into ``tables``."""
    row_id: Int64
    domains: tuple[tuple[int, int, str], ...]
    """NVTX domains: global id of the process, number, name."""


@dataclass(frozen=True, eq=False)
class RowReader:
    """Reads the row of an export behind a row of the trace.

    Raises TraceError if the file is gone, has changed or is damaged there.
    """

    database: Database
    rows: RowPlaces

    def __call__(self, row: int) -> Mapping[str, Any]:
        """Columns that are not NULL; ids of strings and constants as what they stand for, first."""
        table = self.rows.tables[int(self.rows.table[row])]
        with self.database.connect() as connection:
            try:
                cursor = connection.execute(
                    f"select * from {quoted(table)} where rowid = ?",  # noqa: S608 - quoted
                    (int(self.rows.row_id[row]),),
                )
                found = cursor.fetchone()
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise TraceError(f"{self.database.path}: {table} is damaged ({error})") from error
            if found is None:
                raise TraceError(f"{self.database.path} has changed since it was opened")
            columns = (column[0] for column in cursor.description)
            raw = {
                key: value for key, value in zip(columns, found, strict=True) if value is not None
            }
            return self._readable(raw, StringTables(self.database, connection))

    def _readable(self, raw: Mapping[str, Any], texts: StringTables) -> Mapping[str, Any]:
        spelled, others = {}, {}
        for key, value in raw.items():
            text = _text(texts, key, value)
            if text:
                spelled[key] = text
            else:
                others[key] = f"{len(value)} bytes" if isinstance(value, bytes) else value
        domain = self._domain(raw.get("globalTid"), raw.get("domainId"))
        return {**spelled, **({"domain": domain} if domain else {}), **others}

    def _domain(self, owner: Any, domain: Any) -> str | None:
        # SQLite puts anything into any column, and so does damage.
        if not isinstance(owner, int) or not isinstance(domain, int):
            return None
        names = {(process, number): name for process, number, name in self.rows.domains}
        return names.get((owner >> 24, domain))


def _text(texts: StringTables, key: str, value: Any) -> str | None:
    if not isinstance(value, int):
        return None
    if key in _STRINGS:
        return texts.string(value)
    return texts.label(_LABELS[key], value) if key in _LABELS else None


@dataclass(frozen=True, eq=False)
class StoredRows:
    """A ``RowReader`` but for where its database lies, as columns that are kept with the trace."""

    export: str | None
    """Name of the kept export of a report; None where the trace is the database itself."""
    identity: tuple[int, int]
    columns: Mapping[str, tuple[str, ...]]
    """Columns of each table of the database."""
    rows: RowPlaces

    def reader(self, path: Path, directory: Path) -> RowReader | None:
        """The reader for the trace at ``path``, whose export is kept in ``directory``; None if
        that export is gone or is another one by now."""
        place = path if self.export is None else directory / self.export
        database = Database(place, self.identity, self.columns)
        if self.export is not None:
            if not database.is_there():
                return None
            with suppress(OSError):
                touch(place)
        return RowReader(database, self.rows)


def stored_rows(reader: RowReader, path: Path, directory: Path) -> StoredRows | None:
    """What is kept of the reader of the trace at ``path``; None if its export is not kept in
    ``directory``."""
    database = reader.database
    place = database.path
    if place != path and place.parent != directory:
        return None
    export = None if place == path else place.name
    return StoredRows(export, database.identity, database.tables, reader.rows)


@dataclass(frozen=True)
class AboutExport:
    """What an export holds beside its events."""

    names: Names
    metadata: Mapping[str, Any]
    session_start: int | None
    """Nanoseconds since the epoch of time 0."""
    domains: Mapping[tuple[int, int], str]


def assemble(
    database: Database, columns: Columns, about: AboutExport, warnings: tuple[LoadWarning, ...]
) -> Trace:
    """The trace; ``columns``, which hold at least one row, are used up."""
    track, start, duration = (columns.joined(name) for name in ("track", "start", "duration"))
    rows = order(track, start, duration)
    start, duration, track = start[rows], duration[rows], track[rows]
    apart = time_outliers(start)
    categories = tuple(columns.categories)
    category = columns.joined("category")[rows]
    nesting = nest_by_category(track, start, duration, category, categories)
    origin = int(start.min())
    start -= origin
    return Trace(
        path=database.path,
        start=start,
        duration=duration,
        name=columns.joined("name")[rows],
        category=category,
        track=track,
        correlation=columns.joined("correlation")[rows],
        external_id=np.full(len(rows), NONE, dtype=np.int64),
        bytes=columns.joined("bytes")[rows],
        parent=nesting.parent,
        depth=nesting.depth,
        names=tuple(columns.names),
        categories=categories,
        tracks=columns.tracks.tracks(about.names),
        origin=origin,
        wall_origin=None if about.session_start is None else about.session_start + origin,
        complete_events=len(rows),
        metadata=about.metadata,
        warnings=(*warnings, LoadWarning(apart.message)) if apart else warnings,
        read_arguments=RowReader(
            database,
            RowPlaces(
                tuple(columns.tables),
                columns.joined("table")[rows],
                columns.joined("row_id")[rows],
                tuple((*key, name) for key, name in about.domains.items()),
            ),
        ),
    )
