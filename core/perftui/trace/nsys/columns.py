"""Columns of an export while it is being read, batch by batch."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.kineto.columns import Numbering
from perftui.trace.kineto.events import LIMIT
from perftui.trace.model import KERNEL, MEMCPY, MEMSET, NONE, Int32, Int64, Track
from perftui.trace.nsys import names
from perftui.trace.nsys.database import MPI_TABLES, STRINGS, Database
from perftui.trace.nsys.names import Label

BATCH = 8192
"""Rows fetched at a time: they take about 2 MiB while they are Python objects."""

Rows = list[tuple[Any, ...]]


@dataclass
class Scan:
    """Reads ``columns`` (SQL expressions) of a table; the row's id is put before them.

    Rows come in order of their ids. Where a page is damaged those before it are read, then those
    behind it from the last backwards, and ``damage`` is SQLite's error.
    """

    connection: sqlite3.Connection
    table: str
    columns: Sequence[str]
    where: str = "1"
    damage: str | None = field(default=None, init=False)
    last: int = field(default=0, init=False)
    """Largest id given out so far."""

    def batches(self) -> Iterator[Rows]:
        """All rows that can be read."""
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
                # A fetch that fails gives none of its rows, though most may be readable.
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
        # The parts are names of this package, and columns that the file was seen to have.
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
        """The text of an id; None where there is none."""
        if key not in self._strings:
            self._strings[key] = self._read_string(key)
        return self._strings[key]

    def name(self, enumeration: str, value: int) -> str:
        """The constant's name, such as ``CUDA_MEMCPY_KIND_HTOD``; empty where it is not known."""
        return self._enumeration(enumeration).get(value, ("", ""))[0]

    def label(self, enumeration: str, value: int) -> str:
        """The constant in texts, such as ``Pageable``; empty where it is not known."""
        return self._enumeration(enumeration).get(value, ("", ""))[1]

    def values(self, enumeration: str, *names: str) -> list[int]:
        """Ids of the constants with these names."""
        constants = self._enumeration(enumeration).items()
        return [value for value, (name, _) in constants if name in names]

    def _read_string(self, key: int) -> str | None:
        if not self.database.has(STRINGS, "id", "value"):
            return None
        try:
            found = self.connection.execute(
                f"select value from {STRINGS} where id = ?",  # noqa: S608 - a constant's name
                (key,),
            ).fetchone()
        except sqlite3.DatabaseError as error:
            self.damage = str(error)
            return None
        return None if found is None or found[0] is None else str(found[0])

    def _enumeration(self, table: str) -> Mapping[int, tuple[str, str]]:
        if table not in self._enumerations:
            self._enumerations[table] = self._read_enumeration(table) or self._known(table)
        return self._enumerations[table]

    def _known(self, table: str) -> Mapping[int, tuple[str, str]]:
        known = _KNOWN.get(table, {})
        if table == MEMORY_KINDS and self.database.has("TARGET_INFO_CUDA_GPU"):
            return {**known, _MANAGED: ("", "Unknown")}
        return known

    def _read_enumeration(self, table: str) -> dict[int, tuple[str, str]]:
        if not self.database.has(table, "id", "name"):
            return {}
        label = "label" if self.database.has(table, "label") else "name"
        try:
            rows = self.connection.execute(
                f"select id, name, {label} from {table}"  # noqa: S608 - constants' names
            ).fetchall()
        except sqlite3.DatabaseError as error:
            self.damage = str(error)
            return {}
        return {key: (str(name), str(text)) for key, name, text in rows if isinstance(key, int)}


UNSIGNED_NONE = 2**32 - 1
"""Stream of what concerns a whole context, event of what waits for none."""


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


SYNC = "cuda_sync"
OVERHEAD = "overhead"


@dataclass(frozen=True)
class Activity:
    """A table whose rows are named by ids.

    ``keys`` are the columns that ``label`` makes name and category from, -1 where the file has no
    such column.
    """

    table: str
    on_device: bool
    keys: tuple[str, ...]
    label: Callable[..., Label]
    by_context: bool = False
    """Whether the table's own device is not to be trusted, and that of the context is."""
    within_others: bool = False
    """Whether only rows count that lie within the time of all other tables."""

    @property
    def owner(self) -> str:
        """The column of whose row it is: a process on the device, a thread on the CPU."""
        return "globalPid" if self.on_device else "globalTid"


def _range(texts: StringTables, text: int) -> Label:
    return names.range_label(texts.string(text) or "unnamed range")


def _call(texts: StringTables, name: int) -> Label:
    return names.call_label(texts.string(name))


def _kernel(texts: StringTables, short: int, demangled: int) -> Label:
    return Label(names.kernel_name(texts.string(short), texts.string(demangled)), KERNEL)


def _copy(texts: StringTables, kind: int, source: int, destination: int) -> Label:
    memory = texts.label(MEMORY_KINDS, source), texts.label(MEMORY_KINDS, destination)
    return Label(names.copy_name(texts.name(COPY_KINDS, kind), *memory), MEMCPY)


def _set(texts: StringTables, memory: int) -> Label:
    return Label(names.set_name(texts.label(MEMORY_KINDS, memory)), MEMSET)


def _sync(texts: StringTables, kind: int, event: int, stream: int) -> Label:
    """Up to schema 3.24 the kinds do not follow the file's own enumeration: of waits for a stream
    or a context, which are on no event, the stream distinguishes them."""
    if event == UNSIGNED_NONE:
        return Label("Context sync" if stream == UNSIGNED_NONE else "Stream sync", SYNC)
    return Label(texts.label(SYNC_KINDS, kind) or "Synchronisation", SYNC)


def _graph(_: StringTables, graph: int) -> Label:
    return Label(f"CUDA graph {graph}", KERNEL)


def _overhead(texts: StringTables, name: int) -> Label:
    return Label(texts.string(name) or "unknown overhead", OVERHEAD)


GRAPHS = Activity("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", True, ("graphId",), _graph)
"""Graphs recorded as a whole: ``nsys profile --cuda-graph-trace=graph``, the default."""

SYNCHRONISATION = Activity(
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    True,
    ("syncType", "eventId", "streamId"),
    _sync,
    by_context=True,
)
"""CUPTI has the context that is waited for and no device: nsys writes 0, whichever it was."""

ACTIVITIES = (
    # Before the calls that they enclose.
    *(Activity(table, False, ("textId",), _range) for table in MPI_TABLES),
    Activity("CUPTI_ACTIVITY_KIND_RUNTIME", False, ("nameId",), _call),
    Activity("CUPTI_ACTIVITY_KIND_OVERHEAD", False, ("nameId",), _overhead),
    Activity("CUPTI_ACTIVITY_KIND_KERNEL", True, ("shortName", "demangledName"), _kernel),
    Activity("CUPTI_ACTIVITY_KIND_MEMCPY", True, ("copyKind", "srcKind", "dstKind"), _copy),
    Activity("CUPTI_ACTIVITY_KIND_MEMSET", True, ("memKind",), _set),
    GRAPHS,
    SYNCHRONISATION,
    # The profiler also works before the program's first call and after its last: that is no part
    # of what it did.
    Activity("PROFILER_OVERHEAD", False, ("nameId",), _overhead, within_others=True),
)
"""All but NVTX ranges, which have texts for names. What the operating system does (``OSRT_API``) is
left out: threads that wait from begin to end of the program would stretch the trace to its whole
life, and no table of ours asks for them. So are calls of cuBLAS and cuDNN: what they launch
shows."""
