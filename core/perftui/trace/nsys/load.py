"""Reads an export of Nsight Systems into columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from perftui.trace.cache.identity import journals_of
from perftui.trace.callbacks import FIRST_PREVIEW, PREVIEW_GROWTH, Cancelled, Preview, Progress
from perftui.trace.errors import LoadCancelled, TraceError
from perftui.trace.model import LoadWarning, Trace
from perftui.trace.nsys.activities import ACTIVITIES, GRAPHS, Activity
from perftui.trace.nsys.assemble import AboutExport, assemble
from perftui.trace.nsys.columns import Columns, place
from perftui.trace.nsys.cut import torn_rows
from perftui.trace.nsys.database import EVENT_TABLES, Database, open_database
from perftui.trace.nsys.metadata import read_gpus, read_metadata, read_session_start
from perftui.trace.nsys.ranges import TABLE as RANGES
from perftui.trace.nsys.ranges import Ranges
from perftui.trace.nsys.scan import Rows, Scan
from perftui.trace.nsys.string_tables import StringTables
from perftui.trace.nsys.tracks import Names, TrackTable, read_names

Value = TypeVar("Value")


def load_nsys(
    path: Path,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    preview: Preview | None = None,
) -> Trace:
    """Load an SQLite export of any version of Nsight Systems since 2021.

    Kernels, copies, sets, graphs launched as a whole and synchronisation by stream; calls of the
    CUDA runtime and driver, NVTX ranges and the profiler's overhead by thread. What can be read of
    a damaged file is loaded, and ``Trace.warnings`` names the tables that lost rows. ``progress``
    is given the share of the file's bytes that the rows read so far stand for; it and
    ``cancelled`` are called for every 8192 rows, ``preview`` with the trace of what was read so
    far, now and then where there is much more to come.

    Raises TraceError, which says what to do, where the file is missing or no export, or holds no
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
        self.columns = Columns(TrackTable(self._tolerated(read_gpus, {})))
        self.rows_in = {table: self._largest_id(table) for table in EVENT_TABLES}
        self.rows_done = 0
        self.next_preview = FIRST_PREVIEW
        self.torn = torn_rows(self.database.path)
        self.ranges = Ranges(self.database, self.texts)
        self.about = AboutExport(
            names=self._tolerated(partial(read_names, self.texts), Names({}, {})),
            metadata=self._tolerated(read_metadata, {}),
            session_start=self._tolerated(read_session_start, None),
            domains=self.ranges.domains,
        )

    def run(self) -> Trace:
        """Read everything there is."""
        self._report(0)
        self._read_ranges()
        for activity in ACTIVITIES:
            if self.database.has(activity.table, "start", "end"):
                self._read_activity(activity)
        if not self.columns.parts:
            raise TraceError(self._without_rows())
        self._warn()
        trace = assemble(self.database, self.columns, self.about, tuple(self.warnings))
        self._report(self.database.size)
        return trace

    def _read_ranges(self) -> None:
        # Before all else: of two rows with the same times the range encloses the call.
        ranges = self.ranges
        if self.database.has(RANGES, "start", "end"):
            columns = (*place(self.database, RANGES, "globalTid", False), *ranges.keys)
            scan = self._scan(RANGES, columns, ranges.where)
            for rows in ranges.only(self._watched(scan)):
                self.columns.add(RANGES, rows, ranges.label)

    def _read_activity(self, activity: Activity) -> None:
        table, where = activity.table, "1"
        if activity.within_others:
            first, last = self.columns.span()
            where = f'"start" >= {first} and "end" <= {last}'
        keys = tuple(self.database.column(table, column) for column in activity.keys)
        device = self._device_by_context(table) if activity.by_context else ""
        label = cache(partial(activity.label, self.texts))
        columns = (*place(self.database, table, activity.owner, activity.on_device, device), *keys)
        scan = self._scan(table, columns, where)
        added = sum(self.columns.add(table, rows, label) for rows in self._watched(scan))
        if added and activity is GRAPHS:
            self._note(
                f"{added} launches of CUDA graphs were recorded as a whole, and each counts as one "
                "kernel; to see their kernels, record with: nsys profile --cuda-graph-trace=node"
            )

    def _scan(self, table: str, columns: tuple[str, ...], where: str) -> Scan:
        return Scan(
            self.connection, table, columns, f'"start" is not null and {self._whole(table)}{where}'
        )

    def _whole(self, table: str) -> str:
        """SQL that leaves out a row that the file ends within."""
        names = self.database.tables[table]
        begin, end = names.index("start"), names.index("end")
        same = [
            f'(rowid = {row_id} and "start" is {columns[begin]} and "end" is {columns[end]})'
            for row_id, columns in self.torn
            if len(columns) == len(names) and columns[begin] is not None
        ]
        return f"not ({' or '.join(same)}) and ".replace("None", "null") if same else ""

    def _device_by_context(self, table: str) -> str:
        """SQL of the device of a row's context, as kernels and copies in it had it."""
        column = self.database.column
        owner, context = column(table, "globalPid"), column(table, "contextId")
        known = "".join(
            f" when {owner} = {who} and {context} = {which} then {device}"
            for (who, which), device in self.columns.contexts.items()
        )
        given = column(table, "deviceId")
        return f"case{known} else {given} end" if known else given

    def _watched(self, scan: Scan) -> Iterable[Rows]:
        for rows in scan.batches():
            yield rows
            self._report(self._bytes(self.rows_done + scan.last))
            self._show()
        self.rows_done += self.rows_in[scan.table]
        if scan.damage:
            self._note(f"{scan.table} is damaged ({scan.damage}): some of its rows are missing")

    def _show(self) -> None:
        if self.preview is not None and self.columns.rows >= self.next_preview:
            self.next_preview = self.columns.rows * PREVIEW_GROWTH
            self.preview(assemble(self.database, self.columns.so_far(), self.about, ()))

    def _bytes(self, rows: int) -> int:
        return self.database.size * rows // max(sum(self.rows_in.values()), rows, 1)

    def _report(self, done: int) -> None:
        if self.cancelled is not None and self.cancelled():
            raise LoadCancelled
        if self.progress is not None:
            self.progress(done, self.database.size)

    def _largest_id(self, table: str) -> int:
        if table not in self.database.tables:
            return 0
        try:
            found = self.connection.execute(f"select max(rowid) from {table}").fetchone()  # noqa: S608 - a constant
        except sqlite3.DatabaseError:
            # Only the share for the progress is lost: reading the rows will show what is wrong.
            return 0
        return int(found[0] or 0)

    def _tolerated(
        self, read: Callable[[Database, sqlite3.Connection], Value], otherwise: Value
    ) -> Value:
        """What ``read`` finds, or ``otherwise`` and a warning where the file is damaged there."""
        try:
            return read(self.database, self.connection)
        except sqlite3.DatabaseError as error:
            self._note(f"names of GPUs, processes or threads are damaged ({error})")
            return otherwise

    def _warn(self) -> None:
        if self.torn:
            self._note("the file was cut off: some rows at its end are missing")
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

    def _without_rows(self) -> str:
        damage = "".join(f"; {warning.message}" for warning in self.warnings)
        return (
            f"{self.database.path} holds no kernel, CUDA call or NVTX range{damage}: record again "
            "with: nsys profile --trace=cuda,nvtx"
        )
