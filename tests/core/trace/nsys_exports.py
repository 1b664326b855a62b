"""Small exports of Nsight Systems, made table by table as its versions make them."""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

HOST = 1 << 48
PID, TID = 4000, 4001


def process(pid: int = PID) -> int:
    """A process's global id."""
    return HOST | (pid << 24)


def thread(tid: int = TID, pid: int = PID) -> int:
    """A thread's global id."""
    return process(pid) | tid


STRINGS = {
    1: "cudaLaunchKernel_v7000",
    2: "cudaMemcpyAsync_ptsz_v7000",
    3: "cuMemcpyDtoH_v2",
    4: "add_kernel",
    5: "void ns::add_kernel<(int)4, ns::Sum<float>>(int, T2)",
    6: "main",
    7: "Lazy Function Loading",
    8: "registered range",
    9: "CUPTI Buffer flush",
}

RUNTIME = "start, end, eventClass, globalTid, correlationId, nameId, returnValue"
KERNEL = (
    "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName"
)
MEMCPY = (
    "start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind"
)
MEMSET = "start, end, deviceId, streamId, correlationId, globalPid, bytes, memKind"
SYNC = "start, end, deviceId, streamId, correlationId, globalPid, syncType, eventId"
NVTX = "start, end, eventType, text, globalTid, textId, domainId"
GRAPH = "start, end, deviceId, streamId, correlationId, globalPid, graphId"
OVERHEAD = "start, end, globalTid, nameId"

Table = tuple[str, Sequence[Sequence[Any]]]


def kernel(start: int, end: int, correlation: int = 11, **changed: int) -> tuple[int, ...]:
    """A row for ``KERNEL``."""
    row = {"device": 0, "stream": 7, "owner": process(), "demangled": 5, "short": 4, **changed}
    names = row["demangled"], row["short"]
    return start, end, row["device"], 1, row["stream"], correlation, row["owner"], *names


def call(start: int, end: int, name: int = 1, correlation: int = 11, tid: int = TID) -> Any:
    """A row for ``RUNTIME``."""
    return start, end, 0, thread(tid), correlation, name, 0


def pushed(start: int, end: int | None, text: str | None, kind: int = 59, **changed: Any) -> Any:
    """A row for ``NVTX``."""
    row = {"owner": thread(), "text_id": None, "domain": 0, **changed}
    return start, end, kind, text, row["owner"], row["text_id"], row["domain"]


ACTIVITIES = {"runtime": RUNTIME, "kernel": KERNEL, "memcpy": MEMCPY, "memset": MEMSET}
ACTIVITIES |= {"synchronization": SYNC, "graph_trace": GRAPH, "overhead": OVERHEAD}


def tables(**rows: Sequence[Sequence[Any]]) -> dict[str, Table]:
    """Tables of the kinds of activities that CUPTI records, and of ``nvtx``."""
    ranges = {"NVTX_EVENTS": (NVTX, rows.pop("nvtx"))} if "nvtx" in rows else {}
    kinds = {f"CUPTI_ACTIVITY_KIND_{kind.upper()}": kind for kind in rows}
    return {**{name: (ACTIVITIES[kind], rows[kind]) for name, kind in kinds.items()}, **ranges}


def small() -> dict[str, Table]:
    """One launch inside a range, and its kernel."""
    launch, around = [call(1_000, 1_200)], [pushed(900, 2_000, "step 1")]
    return tables(runtime=launch, kernel=[kernel(1_500, 1_900)], nvtx=around)


def write(path: Path, tables: dict[str, Table], strings: dict[int, str] | None = None) -> Path:
    """Write an export, with ``StringIds`` before all other tables as nsys does."""
    known = STRINGS if strings is None else strings
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        connection.executemany("insert into StringIds values (?, ?)", known.items())
        for table, (columns, rows) in tables.items():
            _fill(connection, table, columns, rows)
        connection.commit()
    return path


def _fill(
    connection: sqlite3.Connection, table: str, columns: str, rows: Iterable[Sequence[Any]]
) -> None:
    names = [f'"{name.strip()}"' for name in columns.split(",")]
    connection.execute(f'create table "{table}" ({", ".join(names)})')
    marks = ", ".join("?" * len(names))
    connection.executemany(f'insert into "{table}" values ({marks})', rows)  # noqa: S608 - our own
