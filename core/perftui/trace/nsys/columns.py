"""Columns of an export while it is read, batch by batch, and the Trace made of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.cache import touch
from perftui.trace.columns.arrays import GrowableArray, nest_by_category, order, time_outliers
from perftui.trace.kineto.columns import Numbering, numbers_of
from perftui.trace.kineto.events import LIMIT
from perftui.trace.model import NONE, Int64, Ints, LoadWarning, Trace, TraceError, Track
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


class TrackTable(dict[tuple[int, int, int], int]):
    """Numbers tracks in order of appearance, by device, stream and global id of the owner.

    ``gpus`` is the number in the machine of a process's device, by (pid, device), if the file has
    it: each process counts its own devices from 0.
    """

    def __init__(self, gpus: dict[tuple[int, int], int]) -> None:
        super().__init__()
        self._gpus = gpus
        self._index = Numbering()

    def __missing__(self, place: tuple[int, int, int]) -> int:
        device, stream, owner = place
        key = NONE, NONE, owner
        if device != NONE:
            gpu = max(self._gpus.get((process_of(owner), device), device), 0)
            key = gpu, NONE if stream == UNSIGNED_NONE else stream, owner >> 24
        number = self[place] = self._index[key]
        return number

    def tracks(self, names: Names) -> tuple[Track, ...]:
        """All tracks, by number."""
        return tuple(_track(device, stream, owner, names) for device, stream, owner in self._index)


@dataclass(frozen=True)
class Names:
    """Names in the file of processes (by global id without the thread) and threads."""

    processes: dict[int, str]
    threads: dict[int, str]


def read_names(texts: StringTables, database: Database, connection: sqlite3.Connection) -> Names:
    """Read the names of processes and threads, of the whole machine if nsys listed it.

    Raises sqlite3.DatabaseError if they are damaged.
    """
    processes, threads = {}, {}
    if database.has("PROCESSES", "globalPid", "name"):
        rows = connection.execute("select globalPid, name from PROCESSES where name is not null")
        processes = {owner >> 24: str(name) for owner, name in rows if isinstance(owner, int)}
    if database.has("ThreadNames", "globalTid", "nameId"):
        # A renamed thread has several: the one of highest priority counts.
        order = " order by priority" if database.has("ThreadNames", "priority") else ""
        rows = connection.execute(f"select globalTid, nameId from ThreadNames{order}")  # noqa: S608 - constants
        threads = {owner: texts.string(name) or "" for owner, name in rows.fetchall()}
    return Names(processes, threads)


def _track(device: int, stream: int, owner: int, names: Names) -> Track:
    """``owner`` is a thread, or for activity of a device its process."""
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
        thread=str(owner & 0xFFFFFF),
        process_name=names.processes.get(owner >> 24, ""),
        thread_name=names.threads.get(owner, ""),
    )


ENDLESS = -(2**62)
"""End of a row that has none."""

CONTEXT = 5
"""Position in rows of their context."""

DEVICE = 6
"""Position in rows of device, stream and owner: see ``place``."""

OWNER = 8
"""Position in rows of the global id of their process or thread."""

KEYS = 9
"""Position in rows of the first column that names them."""


def place(
    database: Database, table: str, owner: str, on_device: bool, device: str = ""
) -> tuple[str, ...]:
    """SQL of the columns read of every row, between its id and its naming keys.

    ``device`` is SQL of the device, unless that is simply a column of the table.
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


_COLUMNS = (
    *("start", "duration", "name", "category", "track", "correlation", "bytes", "table", "row_id"),
)


@dataclass
class Columns:
    """All columns read so far."""

    tracks: TrackTable
    rows: dict[str, GrowableArray] = field(
        default_factory=lambda: {name: GrowableArray() for name in _COLUMNS}
    )
    span: tuple[int, int] | None = None
    """First start and last end of all rows."""
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
    """Rows left out because they start or end at impossible times."""

    def __len__(self) -> int:
        return len(self.rows["start"])

    def so_far(self) -> Columns:
        """A copy of the rows, which can be used up while more are added here."""
        return replace(self, rows={name: column.copy() for name, column in self.rows.items()})

    def add(self, table: str, rows: Rows, label: Callable[..., Label]) -> int:
        """Append a batch of rows (id, ``place``, keys); ``label`` names a row by its keys.

        Returns the number of new events.
        """
        if not rows:
            return 0
        columns = list(zip(*rows, strict=True))
        numbers = [np.array(column, dtype=np.int64) for column in columns[:KEYS]]
        row_id, start, end, correlation, size, _, device, _, owner = numbers
        if device[0] != NONE:
            used = (columns[at] for at in (OWNER, CONTEXT, DEVICE))
            for who, context, on in set(zip(*used, strict=True)):
                if context != NONE:
                    self.contexts.setdefault((who, context), on)
        labels = [label(*keys) for keys in zip(*columns[KEYS:], strict=True)]
        # Each process counts its own ids: those of the second and later ones are shifted.
        process = numbers_of(self.processes, (owner >> 24).tolist()).astype(np.int64)
        # Old exports wrote 0 as the end of rows that never ended, new ones write NULL.
        finished = (end > 0) | ((start <= 0) & (end != ENDLESS))
        timed = _possible(start) & (_possible(end) | ~finished)
        valid = finished & timed
        self.endless += int(np.count_nonzero(timed & ~finished))
        self.untimed += int(np.count_nonzero(~timed))
        self.negative += int(np.count_nonzero(valid & (end < start)))
        if not valid.any():
            return 0
        new = {
            "start": start,
            "duration": np.maximum(end - start, 0),
            "name": numbers_of(self.names, [item.name for item in labels]),
            "category": numbers_of(self.categories, [item.category for item in labels]),
            "track": numbers_of(self.tracks, list(zip(*columns[DEVICE:KEYS], strict=True))),
            "correlation": np.where(correlation > 0, correlation + (process << 32), NONE),
            "bytes": size,
            "table": np.full(len(rows), self.tables[table], dtype=np.int32),
            "row_id": row_id,
        }
        for name, column in new.items():
            self.rows[name].extend(column[valid])
        first, last = int(start[valid].min()), int(np.maximum(start, end)[valid].max())
        if self.span is not None:
            first, last = min(first, self.span[0]), max(last, self.span[1])
        self.span = first, last
        return int(np.count_nonzero(valid))


def _possible(times: Int64) -> npt.NDArray[np.bool_]:
    return (times > -LIMIT) & (times < LIMIT)


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
    """Where in an export the source of each row of the trace is."""

    tables: tuple[str, ...]
    table: Ints
    """The index into ``tables``."""
    row_id: Ints
    domains: tuple[tuple[int, int, str], ...]
    """NVTX domains: global id of the process, number, name."""


@dataclass(frozen=True, eq=False)
class RowReader:
    """Reads the export's row behind a row of the trace.

    Raises TraceError if the file is gone, has changed or is damaged there.
    """

    database: Database
    rows: RowPlaces

    def __call__(self, row: int) -> Mapping[str, Any]:
        """Columns that are not NULL; ids of strings and constants as their text, first."""
        table = self.rows.tables[int(self.rows.table[row])]
        with self.database.connect() as connection:
            try:
                cursor = connection.execute(
                    f"select * from {quoted(table)} where rowid = ?",  # noqa: S608 - quoted
                    (int(self.rows.row_id[row]),),
                )
                cells = cursor.fetchone()
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise TraceError(f"{self.database.path}: {table} is damaged ({error})") from error
            if cells is None:
                raise TraceError(f"{self.database.path} has changed since it was opened")
            texts = StringTables(self.database, connection)
            raw = {column[0]: value for column, value in zip(cursor.description, cells, strict=True)
                   if value is not None}  # fmt: skip
            spelled, others = {}, {}
            # SQLite puts anything into any column, and so does damage.
            for key, value in raw.items():
                text = None
                if isinstance(value, int) and key in _STRINGS:
                    text = texts.string(value)
                elif isinstance(value, int) and key in _LABELS:
                    text = texts.label(_LABELS[key], value)
                if text:
                    spelled[key] = text
                else:
                    others[key] = f"{len(value)} bytes" if isinstance(value, bytes) else value
        owner, number = raw.get("globalTid"), raw.get("domainId")
        if isinstance(owner, int) and isinstance(number, int):
            for process, domain, name in self.rows.domains:
                if (process, domain) == (owner >> 24, number) and name:
                    spelled["domain"] = name
        return {**spelled, **others}


@dataclass(frozen=True, eq=False)
class StoredRows:
    """A ``RowReader`` without the place of its database, as columns cached with the trace."""

    export: str | None
    """Name of the cached export of a report; None if the trace is the database itself."""
    identity: tuple[int, int]
    columns: Mapping[str, tuple[str, ...]]
    """Columns of each table of the database."""
    rows: RowPlaces

    def reader(self, path: Path, directory: Path) -> RowReader | None:
        """The reader for the trace at ``path``, whose export is cached in ``directory``; None if
        that export is gone or has changed."""
        place = path if self.export is None else directory / self.export
        database = Database(place, self.identity, self.columns)
        if self.export is not None:
            if not database.is_there():
                return None
            with suppress(OSError):
                touch(place)
        return RowReader(database, self.rows)


def stored_rows(reader: RowReader, path: Path, directory: Path) -> StoredRows | None:
    """The columns of the reader of the trace at ``path``; None if its export is not cached in
    ``directory``."""
    database = reader.database
    place = database.path
    if place != path and place.parent != directory:
        return None
    export = None if place == path else place.name
    return StoredRows(export, database.identity, database.tables, reader.rows)


@dataclass(frozen=True)
class AboutExport:
    """Content of an export besides its events."""

    names: Names
    metadata: Mapping[str, Any]
    session_start: int | None
    """Nanoseconds since the epoch of time 0."""
    domains: Mapping[tuple[int, int], str]


def assemble(
    database: Database, columns: Columns, about: AboutExport, warnings: tuple[LoadWarning, ...]
) -> Trace:
    """The trace; ``columns``, which hold at least one row, are used up."""
    raw = {name: column.take() for name, column in columns.rows.items()}
    track = raw["track"]
    start, duration = (raw[name].astype(np.int64, copy=False) for name in ("start", "duration"))
    rows = order(track, start, duration)
    start, duration, track = start[rows], duration[rows], track[rows]
    apart = time_outliers(start)
    categories = tuple(columns.categories)
    category = raw["category"][rows]
    nesting = nest_by_category(track, start, duration, category, categories)
    origin = int(start.min())
    start -= origin
    return Trace(
        path=database.path,
        start=start,
        duration=duration,
        name=raw["name"][rows].astype(np.int32, copy=False),
        category=category,
        track=track,
        correlation=raw["correlation"][rows],
        external_id=np.full(len(rows), NONE, dtype=np.int64),
        bytes=raw["bytes"][rows],
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
                raw["table"][rows],
                raw["row_id"][rows],
                tuple((*key, name) for key, name in about.domains.items()),
            ),
        ),
    )
