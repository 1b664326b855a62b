"""Reads an export of Nsight Systems into columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from perftui.trace.cache import journals_of
from perftui.trace.model import (
    FIRST_PREVIEW,
    NOT_READ,
    PREVIEW_GROWTH,
    Cancelled,
    LoadCancelled,
    LoadWarning,
    Preview,
    Progress,
    Trace,
    TraceError,
)
from perftui.trace.nsys.columns import (
    KEYS,
    OWNER,
    AboutExport,
    Columns,
    Names,
    TrackTable,
    assemble,
    place,
    read_names,
)
from perftui.trace.nsys.database import (
    EVENT_TABLES,
    EVENT_TYPES,
    Database,
    Rows,
    Scan,
    StringTables,
    open_database,
    quoted,
)
from perftui.trace.nsys.names import ACTIVITIES, GRAPHS, Activity, Label, range_label

_DEVICES_OF_PROCESSES = ("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid")

_ABOUT = ("EXPORT_SCHEMA_VERSION", "EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION")

_PROPERTIES = {
    "name": "name",
    "totalMemory": "totalGlobalMem",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
    "smCount": "numSms",
}
"""Columns of TARGET_INFO_GPU, and their names in Kineto."""

_OLD_PROPERTIES = {
    "name": "name",
    "globalMemorySize": "totalGlobalMem",
    "computeCapabilityMajor": "computeMajor",
    "computeCapabilityMinor": "computeMinor",
    "numMultiprocessors": "numSms",
}
"""Columns of TARGET_INFO_CUDA_GPU, which was in its place before Nsight Systems 2021.3 and is made
like ``CUpti_ActivityDevice``."""


def _gpus(database: Database, connection: sqlite3.Connection) -> dict[tuple[int, int], int]:
    """Number in the machine of each process's devices, by (pid, device); empty if unknown."""
    if not database.has(*_DEVICES_OF_PROCESSES):
        return {}
    rows = connection.execute("select pid, cudaId, gpuId from TARGET_INFO_CUDA_DEVICE")
    return {(pid, device): gpu for pid, device, gpu in rows if isinstance(gpu, int)}


def _metadata(database: Database, connection: sqlite3.Connection) -> dict[str, Any]:
    """``deviceProperties`` as in a Kineto file, the versions of the export, and in ``NOT_READ`` the
    number of rows of each table with events that is not read: samples, context switches, calls of
    the operating system... "damaged" stands for an unknown count."""
    metadata: dict[str, Any] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if database.has(table, "name", "value"):
            rows = connection.execute(f"select name, value from {table}").fetchall()  # noqa: S608 - a constant
            metadata |= {name: value for name, value in rows if name in _ABOUT}
    unread = {
        table: count
        for table, columns in sorted(database.tables.items())
        if {"start", "timestamp"}.intersection(columns) or table.endswith("_CALLCHAINS")
        if table not in (*EVENT_TABLES, "DIAGNOSTIC_EVENT")
        if (count := _count(connection, table))
    }
    if unread:
        metadata[NOT_READ] = unread
    devices = _devices(database, connection)
    if devices:
        metadata["deviceProperties"] = devices
    return metadata


def _session_start(database: Database, connection: sqlite3.Connection) -> int | None:
    """Nanoseconds since the epoch of the export's time 0; None in exports without it."""
    if not database.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        return None
    row = connection.execute(
        "select utcEpochNs from TARGET_INFO_SESSION_START_TIME "
        "where typeof(utcEpochNs) = 'integer' and utcEpochNs > 0"
    ).fetchone()
    return None if row is None else int(row[0])


def _count(connection: sqlite3.Connection, table: str) -> int | str:
    """Number of rows. These tables come last and are the largest: a file cut off is damaged there
    first, which must not cost the other facts about the machine."""
    try:
        (rows,) = connection.execute(f"select count(*) from {quoted(table)}").fetchone()  # noqa: S608 - quoted
    except sqlite3.DatabaseError:
        return "damaged"
    return int(rows)


def _devices(database: Database, connection: sqlite3.Connection) -> list[dict[str, Any]]:
    table, number, properties = "TARGET_INFO_GPU", "id", _PROPERTIES
    if not database.has(table, "id", "name"):
        table, number, properties = "TARGET_INFO_CUDA_GPU", "deviceId", _OLD_PROPERTIES
        if not database.has(table, "deviceId", "name"):
            return []
    elif database.has(table, "cuDevice") and not database.has(*_DEVICES_OF_PROCESSES):
        # Without a table that maps devices of processes to GPUs, devices are CUDA's.
        number = "ifnull(cuDevice, id)"
    columns = [column for column in properties if database.has(table, column)]
    rows = connection.execute(
        f"select {number}, {', '.join(columns)} from {table} order by 1"  # noqa: S608 - constants
    ).fetchall()
    keys = ["id", *(properties[column] for column in columns)]
    return [dict(zip(keys, row, strict=True)) for row in rows]


RANGES = "NVTX_EVENTS"

_RANGES = ("NvtxPushPopRange", "NvtxStartEndRange", "NvtxtPushPopRange", "NvtxtStartEndRange")
_DOMAIN = "NvtxDomainCreate"


@dataclass
class Ranges:
    """Selects the rows of ``NVTX_EVENTS`` that are ranges, and names them."""

    database: Database
    texts: StringTables
    domains: dict[tuple[int, int], str] = field(default_factory=dict)
    """Names by (global id of the process, domain), as far as read."""

    @property
    def keys(self) -> tuple[str, ...]:
        """SQL of the columns that name ranges."""
        numbers = (
            self.database.column(RANGES, name) for name in ("eventType", "domainId", "textId")
        )
        return (*numbers, "text" if self.database.has(RANGES, "text") else "null")

    @property
    def where(self) -> str:
        """SQL that excludes marks and rows that only name threads, categories and devices."""
        if not self.database.has(RANGES, "eventType"):
            return '"end" > "start"'
        types = self.texts.values(EVENT_TYPES, *_RANGES, _DOMAIN)
        return f"eventType in ({', '.join(map(str, types))})"

    def only(self, batches: Iterable[Rows]) -> Iterator[Rows]:
        """The ranges of each batch; names of domains are stored."""
        naming = set(self.texts.values(EVENT_TYPES, _DOMAIN))
        for rows in batches:
            for row in rows:
                if row[KEYS] in naming:
                    self.domains[row[OWNER] >> 24, row[KEYS + 1]] = self._text(*row[KEYS + 2 :])
            yield [row for row in rows if row[KEYS] not in naming]

    def label(self, _type: int, _domain: int, text_id: int, text: Any) -> Label:
        """Name and category of a range by its ``keys``."""
        return range_label(self._text(text_id, text))

    def _text(self, text_id: int, text: Any) -> str:
        return str(text) if text else self.texts.string(text_id) or "unnamed range"


Value = TypeVar("Value")


def load_nsys(
    path: Path,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    preview: Preview | None = None,
) -> Trace:
    """Load an SQLite export of any version of Nsight Systems since 2021.

    Kernels, copies, sets, graphs launched as a whole and synchronisation by stream; calls of the
    CUDA runtime and driver, NVTX ranges and the profiler's overhead by thread. The readable part of
    a damaged file is loaded, and ``Trace.warnings`` names the tables that lost rows. ``progress``
    is given the share of the file's bytes that the rows read so far stand for; it and ``cancelled``
    are called for every 8192 rows, ``preview`` with the trace so far, now and then while much more
    is to come.

    Raises TraceError, which says what to do, if the file is missing or no export, or holds no
    event; LoadCancelled after ``cancelled`` returned True.
    """
    database = open_database(path)
    with database.connect() as connection:
        return _Loading(database, connection, progress, cancelled, preview).run()


@dataclass
class _Loading:
    database: Database
    connection: sqlite3.Connection
    progress: Progress | None
    cancelled: Cancelled | None
    preview: Preview | None
    warnings: list[LoadWarning] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.texts = StringTables(self.database, self.connection)
        self.columns = Columns(TrackTable(self._tolerated(_gpus, {})))
        self.rows_in = {table: self._largest_id(table) for table in EVENT_TABLES}
        self.rows_done = 0
        self.next_preview = FIRST_PREVIEW
        self.ranges = Ranges(self.database, self.texts)
        self.about = AboutExport(
            names=self._tolerated(partial(read_names, self.texts), Names({}, {})),
            metadata=self._tolerated(_metadata, {}),
            session_start=self._tolerated(_session_start, None),
            domains=self.ranges.domains,
        )

    def run(self) -> Trace:
        """Read everything."""
        self._report(0)
        ranges = self.ranges
        # Before all else: of two rows with the same times the range encloses the call.
        if self.database.has(RANGES, "start", "end"):
            columns = (*place(self.database, RANGES, "globalTid", False), *ranges.keys)
            for rows in ranges.only(self._watched(self._scan(RANGES, columns, ranges.where))):
                self.columns.add(RANGES, rows, ranges.label)
        for activity in ACTIVITIES:
            if self.database.has(activity.table, "start", "end"):
                self._read_activity(activity)
        if not len(self.columns):
            damage = "".join(f"; {warning.message}" for warning in self.warnings)
            raise TraceError(
                f"{self.database.path} holds no kernel, CUDA call or NVTX range{damage}: record "
                "again with: nsys profile --trace=cuda,nvtx"
            )
        self._warn()
        trace = assemble(self.database, self.columns, self.about, tuple(self.warnings))
        self._report(self.database.size)
        return trace

    def _read_activity(self, activity: Activity) -> None:
        table, condition = activity.table, "1"
        if activity.within_others:
            first, last = self.columns.span or (0, 0)
            condition = f'"start" >= {first} and "end" <= {last}'
        keys = tuple(self.database.column(table, column) for column in activity.keys)
        device = self._device_by_context(table) if activity.by_context else ""
        label = cache(partial(activity.label, self.texts))
        columns = (*place(self.database, table, activity.owner, activity.on_device, device), *keys)
        scan = self._scan(table, columns, condition)
        added = sum(self.columns.add(table, rows, label) for rows in self._watched(scan))
        if added and activity is GRAPHS:
            self._note(
                f"{added} launches of CUDA graphs were recorded as a whole, and each counts as one "
                "kernel; to see their kernels, record with: nsys profile --cuda-graph-trace=node"
            )

    def _scan(self, table: str, columns: tuple[str, ...], condition: str) -> Scan:
        return Scan(self.connection, table, columns, f'"start" is not null and {condition}')

    def _device_by_context(self, table: str) -> str:
        """SQL of the device of a row's context, as known from kernels and copies in it."""
        column = self.database.column
        owner, context = column(table, "globalPid"), column(table, "contextId")
        cases = "".join(
            f" when {owner} = {who} and {context} = {which} then {device}"
            for (who, which), device in self.columns.contexts.items()
        )
        own = column(table, "deviceId")
        return f"case{cases} else {own} end" if cases else own

    def _watched(self, scan: Scan) -> Iterable[Rows]:
        for rows in scan.batches():
            yield rows
            done = self.rows_done + scan.last
            self._report(self.database.size * done // max(sum(self.rows_in.values()), done, 1))
            if self.preview is not None and len(self.columns) >= self.next_preview:
                self.next_preview = len(self.columns) * PREVIEW_GROWTH
                self.preview(assemble(self.database, self.columns.so_far(), self.about, ()))
        self.rows_done += self.rows_in[scan.table]
        if scan.damage:
            self._note(f"{scan.table} is damaged ({scan.damage}): some of its rows are missing")

    def _report(self, done: int) -> None:
        if self.cancelled is not None and self.cancelled():
            raise LoadCancelled
        if self.progress is not None:
            self.progress(done, self.database.size)

    def _largest_id(self, table: str) -> int:
        if table not in self.database.tables:
            return 0
        try:
            row = self.connection.execute(f"select max(rowid) from {table}").fetchone()  # noqa: S608 - a constant
        except sqlite3.DatabaseError:
            # Only the progress is wrong then: reading the rows will report the error.
            return 0
        return int(row[0] or 0)

    def _tolerated(
        self, read: Callable[[Database, sqlite3.Connection], Value], otherwise: Value
    ) -> Value:
        """The result of ``read``, or ``otherwise`` and a warning if the file is damaged there."""
        try:
            return read(self.database, self.connection)
        except sqlite3.DatabaseError as error:
            self._note(f"names of GPUs, processes or threads are damaged ({error})")
            return otherwise

    def _warn(self) -> None:
        if self.database.is_cut_off():
            message = "the file was cut off: some rows at its end are missing, or wrong"
            self.warnings.append(LoadWarning(message, is_cut=True))
        if self.texts.damage:
            self._note(f"StringIds is damaged ({self.texts.damage}): some names are missing")
        if self.columns.untimed:
            self._note(f"left out {self.columns.untimed} events whose time is beyond 73 years")
        if self.columns.endless:
            self._note(f"left out {self.columns.endless} events that never end")
        if self.columns.negative:
            self._note(f"{self.columns.negative} events have a negative duration, taken as 0")
        for journal in journals_of(self.database.path):
            if journal.is_file() and journal.stat().st_size:
                self._note(f"{journal.name} is next to the file: its changes are not read")

    def _note(self, message: str) -> None:
        self.warnings.append(LoadWarning(message))
