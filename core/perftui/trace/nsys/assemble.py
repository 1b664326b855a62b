"""Joins the columns of an export into one ordered, nested Trace."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perftui.trace.cache import touch
from perftui.trace.columns.arrays import nest_by_category, order, time_outliers
from perftui.trace.model import NONE, Int32, Int64, LoadWarning, Trace, TraceError
from perftui.trace.nsys.columns import (
    COPY_KINDS,
    EVENT_TYPES,
    MEMORY_KINDS,
    Columns,
    Names,
    StringTables,
)
from perftui.trace.nsys.database import Database, quoted

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
