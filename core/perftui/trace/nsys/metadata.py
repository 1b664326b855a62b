"""What an export holds about the machine, the clock and itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from perftui.trace.model import NOT_READ
from perftui.trace.nsys.database import EVENT_TABLES, Database, quoted

_ABOUT = ("EXPORT_SCHEMA_VERSION", "EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION")
_EXPORT_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")

_PROPERTIES = {
    "name": "name",
    "totalMemory": "totalGlobalMem",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
    "smCount": "numSms",
}
"""Columns of TARGET_INFO_GPU, and what Kineto calls them."""

_OLD_PROPERTIES = {
    "name": "name",
    "globalMemorySize": "totalGlobalMem",
    "computeCapabilityMajor": "computeMajor",
    "computeCapabilityMinor": "computeMinor",
    "numMultiprocessors": "numSms",
}
"""Columns of TARGET_INFO_CUDA_GPU, which was in its place before Nsight Systems 2021.3 and is made
like ``CUpti_ActivityDevice``."""


def read_gpus(database: Database, connection: sqlite3.Connection) -> dict[tuple[int, int], int]:
    """Number in the machine of each process's devices, by (pid, device); empty if not known."""
    if not database.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid"):
        return {}
    rows = connection.execute("select pid, cudaId, gpuId from TARGET_INFO_CUDA_DEVICE")
    return {(pid, device): gpu for pid, device, gpu in rows if isinstance(gpu, int)}


def read_metadata(database: Database, connection: sqlite3.Connection) -> dict[str, Any]:
    """``deviceProperties`` as in a Kineto file, the versions of the export, and in ``NOT_READ``
    how many rows each table has that holds events and is not read: samples, context
    switches, calls of the operating system... "damaged" stands for what cannot be counted."""
    metadata: dict[str, Any] = _versions(database, connection)
    unread = _unread(database, connection)
    if unread:
        metadata[NOT_READ] = unread
    devices = _devices(database, connection)
    if devices:
        metadata["deviceProperties"] = devices
    return metadata


def read_session_start(database: Database, connection: sqlite3.Connection) -> int | None:
    """Nanoseconds since the epoch of the export's time 0; None in exports without it."""
    if not database.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        return None
    found = connection.execute(
        "select utcEpochNs from TARGET_INFO_SESSION_START_TIME "
        "where typeof(utcEpochNs) = 'integer' and utcEpochNs > 0"
    ).fetchone()
    return None if found is None else int(found[0])


def _unread(database: Database, connection: sqlite3.Connection) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    for table, columns in sorted(database.tables.items()):
        timed = {"start", "timestamp"}.intersection(columns) or table.endswith("_CALLCHAINS")
        if timed and table not in (*EVENT_TABLES, "DIAGNOSTIC_EVENT"):
            rows = _count(connection, table)
            found |= {table: rows} if rows else {}
    return found


def _count(connection: sqlite3.Connection, table: str) -> int | str:
    """How many rows there are. These tables stand last and are the largest: what cuts a file off
    damages them first, which must not cost what else it holds of the machine."""
    try:
        (rows,) = connection.execute(f"select count(*) from {quoted(table)}").fetchone()  # noqa: S608 - quoted
    except sqlite3.DatabaseError:
        return "damaged"
    return int(rows)


def _versions(database: Database, connection: sqlite3.Connection) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for table in _EXPORT_TABLES:
        if database.has(table, "name", "value"):
            rows = connection.execute(f"select name, value from {table}").fetchall()  # noqa: S608 - a constant
            found |= {name: value for name, value in rows if name in _ABOUT}
    return found


def _devices(database: Database, connection: sqlite3.Connection) -> list[dict[str, Any]]:
    if not database.has("TARGET_INFO_GPU", "id", "name"):
        if not database.has("TARGET_INFO_CUDA_GPU", "deviceId", "name"):
            return []
        return _described(database, connection, "TARGET_INFO_CUDA_GPU", "deviceId", _OLD_PROPERTIES)
    # Without a table of which device of a process is which GPU, devices are CUDA's.
    by_process = database.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid")
    number = "id" if by_process or not database.has("TARGET_INFO_GPU", "cuDevice") else "cuDevice"
    number = f"ifnull({number}, id)"
    return _described(database, connection, "TARGET_INFO_GPU", number, _PROPERTIES)


def _described(
    database: Database,
    connection: sqlite3.Connection,
    table: str,
    number: str,
    properties: Mapping[str, str],
) -> list[dict[str, Any]]:
    columns = [column for column in properties if database.has(table, column)]
    rows = connection.execute(
        f"select {number}, {', '.join(columns)} from {table} order by 1"  # noqa: S608 - constants
    ).fetchall()
    keys = ["id", *(properties[column] for column in columns)]
    return [dict(zip(keys, row, strict=True)) for row in rows]
