"""Who ran the events of an export: threads by their global id, streams by process and device."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from perftui.trace.kineto.tracks import Numbering
from perftui.trace.model import NONE, Track
from perftui.trace.nsys.database import Database
from perftui.trace.nsys.string_tables import StringTables

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
