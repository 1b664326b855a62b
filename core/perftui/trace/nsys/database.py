"""One export, opened read-only and unchanged, and access to its tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perftui.run.files import open_regular
from perftui.trace.model import TraceError

MPI_TABLES = (
    "MPI_P2P_EVENTS",
    "MPI_COLLECTIVES_EVENTS",
    "MPI_START_WAIT_EVENTS",
    "MPI_OTHER_EVENTS",
)
"""Calls of MPI. Before Nsight Systems had these tables, they were NVTX ranges."""

EVENT_TABLES = (
    "NVTX_EVENTS",
    *MPI_TABLES,
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_OVERHEAD",
    "PROFILER_OVERHEAD",
)
"""Tables whose rows become events. An export holds only those that have rows."""

STRINGS = "StringIds"

_OTHER_SIGNS = ("OSRT_API", "SCHED_EVENTS", "ANALYSIS_DETAILS", "TARGET_INFO_SYSTEM_ENV")

_PAGE_SIZE_AT = 16
"""Offset of the page size in the header of a database: https://www.sqlite.org/fileformat.html"""

AGAIN = "export it again with: nsys export --type sqlite REPORT.nsys-rep"


@dataclass(frozen=True)
class Database:
    """A file, its state when first opened, and its tables with their columns."""

    path: Path
    identity: tuple[int, int]
    tables: Mapping[str, tuple[str, ...]]

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self.identity[0]

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table is there, with all of these columns."""
        return table in self.tables and set(columns) <= set(self.tables[table])

    def column(self, table: str, column: str) -> str:
        """SQL of a column of integers, -1 if it is absent or NULL."""
        if not self.has(table, column):
            return "-1"
        return f"ifnull(cast({quoted(column)} as integer), -1)"

    def is_cut_off(self) -> bool:
        """Whether the file ends within a page. Raises TraceError if it cannot be read."""
        try:
            with open_regular(self.path) as file:
                size = int.from_bytes(file.read(_PAGE_SIZE_AT + 2)[_PAGE_SIZE_AT:], "big")
        except OSError as error:
            raise TraceError(f"cannot read {self.path}: {error.strerror or error}") from error
        return self.size % (65536 if size <= 1 else size) != 0

    def is_there(self) -> bool:
        """Whether the file is unchanged since it was first opened."""
        try:
            return _identity(self.path) == self.identity
        except TraceError:
            return False

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        """A connection for reading.

        Raises TraceError if the file is gone or has changed since it was first opened.
        """
        if _identity(self.path) != self.identity:
            raise TraceError(f"{self.path} has changed since it was opened: open it again")
        with _connected(self.path) as connection:
            yield connection


def open_database(path: Path) -> Database:
    """Read the list of tables of an export.

    Raises TraceError if the file is missing, damaged in its first pages, or no export.
    """
    identity = _identity(path)
    try:
        with _connected(path) as connection:
            # Damage can turn names into blobs, and a page of rows into a list of tables.
            listed = connection.execute(
                "select name from sqlite_master where type = 'table' and typeof(name) = 'text'"
            ).fetchall()
            described = {name: connection.execute(f"pragma table_info({quoted(name)})").fetchall()
                         for (name,) in listed}  # fmt: skip
            tables = {name: tuple(row[1] for row in rows) for name, rows in described.items()}
    except sqlite3.DatabaseError as error:
        raise TraceError(
            f"{path} is an SQLite database whose list of tables cannot be read ({error}): {AGAIN}"
        ) from error
    # An export that was recorded without CUDA and NVTX has texts, and other events.
    signs = _OTHER_SIGNS if STRINGS in tables else ()
    if not any(table in tables for table in (*EVENT_TABLES, *signs)):
        raise TraceError(
            f"{path} is an SQLite database, but not an Nsight Systems export; open a file made by: "
            "nsys export --type sqlite REPORT.nsys-rep"
        )
    return Database(path, identity, tables)


def quoted(name: str) -> str:
    """A table's or column's name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    return status.st_size, status.st_mtime_ns


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    # Immutable: SQLite then looks for no lock and no journal, and reads from read-only places.
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(uri, uri=True)
    except sqlite3.Error as error:
        raise TraceError(f"cannot read {path}: {error}") from error
    try:
        # Otherwise SQLite refuses a file that is shorter than its header says: one cut off.
        connection.execute("pragma writable_schema = on")
        # Views, triggers and computed columns cannot call harmful functions.
        connection.execute("pragma trusted_schema = off")
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield connection
    finally:
        connection.close()


BATCH = 8192
"""Rows fetched at a time: they take about 2 MiB while they are Python objects."""


Rows = list[tuple[Any, ...]]


@dataclass
class Scan:
    """Reads ``columns`` (SQL expressions) of a table, after the row's id.

    Rows come in order of their ids. At a damaged page the rows before it are read, then those after
    it from the last backwards, and ``damage`` is SQLite's error.
    """

    connection: sqlite3.Connection
    table: str
    columns: Sequence[str]
    where: str = "1"
    damage: str | None = field(default=None, init=False)
    last: int = field(default=0, init=False)
    """Largest id given out so far."""

    def batches(self) -> Iterator[Rows]:
        """All readable rows."""
        yield from self._read("asc", None)
        if self.damage:
            yield from self._read("desc", self.last)

    def _read(
        self, direction: str, above: int | None, size: int = BATCH, reached: int | None = None
    ) -> Iterator[Rows]:
        try:
            cursor = self.connection.execute(*self._query(direction, reached, above))
            while rows := cursor.fetchmany(size):
                reached = rows[-1][0]
                self.last = max(self.last, rows[0][0], rows[-1][0])
                yield rows
        except sqlite3.DatabaseError as error:
            self.damage = str(error)
            if size > 1:
                # A fetch that fails returns none of its rows, though most may be readable.
                yield from self._read(direction, above, 1, reached)

    def _query(
        self, direction: str, reached: int | None, above: int | None
    ) -> tuple[str, list[int]]:
        limits, values = [f"({self.where})"], []
        if reached is not None:
            limits.append("rowid > ?" if direction == "asc" else "rowid < ?")
            values.append(reached)
        if above is not None:
            limits.append("rowid > ?")
            values.append(above)
        # The parts are names of this package, and columns seen in the file.
        sql = (
            f"select rowid, {', '.join(self.columns)} from {self.table} "  # noqa: S608 - see above
            f"where {' and '.join(limits)} order by rowid {direction}"
        )
        return sql, values


COPY_KINDS = "ENUM_CUDA_MEMCPY_OPER"
MEMORY_KINDS = "ENUM_CUDA_MEM_KIND"
SYNC_KINDS = "ENUM_CUPTI_SYNC_TYPE"
EVENT_TYPES = "ENUM_NSYS_EVENT_TYPE"


_COPIES = (
    *("UNKNOWN", "HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP"),
    *("UVM_HTOD", "UVM_DTOH", "UVM_DTOD"),
)

_MEMORIES = (
    *("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"),
    "Unknown",
)

_SYNCS = ("Unknown", "Event sync", "Stream wait sync", "Stream sync", "Context sync")

_KNOWN: Mapping[str, Mapping[int, tuple[str, str]]] = {
    COPY_KINDS: {i: (f"CUDA_MEMCPY_KIND_{name}", name) for i, name in enumerate(_COPIES)},
    MEMORY_KINDS: {i: ("", label) for i, label in enumerate(_MEMORIES)},
    SYNC_KINDS: {i: ("", label) for i, label in enumerate(_SYNCS)},
    EVENT_TYPES: {
        59: ("NvtxPushPopRange",) * 2,
        60: ("NvtxStartEndRange",) * 2,
        70: ("NvtxtPushPopRange",) * 2,
        71: ("NvtxtStartEndRange",) * 2,
        75: ("NvtxDomainCreate",) * 2,
    },
}
"""For exports without these tables: (name, label) by id. NVIDIA, "SQLite Export Schema Reference"
of Nsight Systems 2021.5; the same in every file seen since."""

_MANAGED = _MEMORIES.index("Managed")
"""Was the last kind, "Unknown", before Nsight Systems 2021.3 (``MEM_KIND_STRS_CTE`` in the reports
of 2021.1)."""


@dataclass
class StringTables:
    """Looks up strings and enumerations of one export; each is read once."""

    database: Database
    connection: sqlite3.Connection
    damage: str | None = None
    """SQLite's error where strings could not be read."""
    _strings: dict[int, str | None] = field(default_factory=dict)
    _enumerations: dict[str, Mapping[int, tuple[str, str]]] = field(default_factory=dict)

    def string(self, key: int) -> str | None:
        """The text of an id; None if there is none."""
        if key not in self._strings:
            self._strings[key] = None
            if self.database.has(STRINGS, "id", "value"):
                for (text,) in self._read(f"select value from {STRINGS} where id = ?", key):  # noqa: S608 - a constant
                    self._strings[key] = None if text is None else str(text)
        return self._strings[key]

    def name(self, enumeration: str, value: int) -> str:
        """The constant's name, such as ``CUDA_MEMCPY_KIND_HTOD``; empty if unknown."""
        return self._enumeration(enumeration).get(value, ("", ""))[0]

    def label(self, enumeration: str, value: int) -> str:
        """The constant in words, such as ``Pageable``; empty if unknown."""
        return self._enumeration(enumeration).get(value, ("", ""))[1]

    def values(self, enumeration: str, *names: str) -> list[int]:
        """Ids of the constants with these names."""
        constants = self._enumeration(enumeration).items()
        return [value for value, (name, _) in constants if name in names]

    def _enumeration(self, table: str) -> Mapping[int, tuple[str, str]]:
        if table not in self._enumerations:
            constants = dict(_KNOWN.get(table, {}))
            if table == MEMORY_KINDS and self.database.has("TARGET_INFO_CUDA_GPU"):
                constants[_MANAGED] = "", "Unknown"
            rows: Rows = []
            if self.database.has(table, "id", "name"):
                label = "label" if self.database.has(table, "label") else "name"
                rows = self._read(f"select id, name, {label} from {table}")  # noqa: S608 - constants
            read = {key: (str(name), str(text)) for key, name, text in rows if isinstance(key, int)}
            self._enumerations[table] = read or constants
        return self._enumerations[table]

    def _read(self, sql: str, *values: int) -> Rows:
        try:
            return self.connection.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            self.damage = str(error)
            return []
