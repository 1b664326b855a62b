"""Whatever an export holds: the columns' sums are those that plain SQL gives."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.trace.formats import load_trace
from perftui.trace.model import Trace, TraceError
from tests.core.trace import nsys_exports as nsys

pytestmark = pytest.mark.slow

times = st.integers(0, 2**60)
lengths = st.integers(0, 10**12)
owners = st.sampled_from([nsys.process(pid) for pid in (1, 4000, 0xFFFFFF)])
threads = st.builds(nsys.thread, st.integers(0, 0xFFFFFF), st.sampled_from([1, 4000, 0xFFFFFF]))
devices = st.integers(0, 7)
streams = st.sampled_from([0, 7, 22, 2**32 - 1])
correlations = st.integers(0, 2**32 - 1)
sizes = st.integers(0, 2**50)


def timed(*others: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    row = st.tuples(times, lengths, *others)
    return st.lists(row.map(lambda each: (each[0], each[0] + each[1], *each[2:])), max_size=12)


exports = st.fixed_dictionaries(
    {},
    optional={
        "CUPTI_ACTIVITY_KIND_KERNEL": timed(
            devices, st.just(1), streams, correlations, owners, st.just(5), st.just(4)
        ).map(lambda rows: (nsys.KERNEL, rows)),
        "CUPTI_ACTIVITY_KIND_MEMCPY": timed(
            devices, streams, correlations, owners, sizes, st.integers(0, 14), *[devices] * 2
        ).map(lambda rows: (nsys.MEMCPY, rows)),
        "CUPTI_ACTIVITY_KIND_MEMSET": timed(
            devices, streams, correlations, owners, sizes, devices
        ).map(lambda rows: (nsys.MEMSET, rows)),
        "CUPTI_ACTIVITY_KIND_RUNTIME": timed(
            st.just(0), threads, correlations, st.integers(1, 3), st.just(0)
        ).map(lambda rows: (nsys.RUNTIME, rows)),
        "NVTX_EVENTS": timed(
            st.sampled_from([34, 59, 60, 75]), st.text(min_size=1), threads, st.none(), devices
        ).map(lambda rows: (nsys.NVTX, rows)),
    },
)

CATEGORIES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("kernel",),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("gpu_memcpy",),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("gpu_memset",),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("cuda_runtime", "cuda_driver"),
    "NVTX_EVENTS": ("user_annotation", "cpu_op"),
}


@given(exports)
@settings(max_examples=100, deadline=None)
def test_counts_times_and_bytes_equal_sql(tables: dict[str, nsys.Table]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = nsys.write(Path(directory) / "report.sqlite", tables)
        ranges = [row for row in tables.get("NVTX_EVENTS", ("", []))[1] if row[2] in {59, 60}]
        others = [row for name in tables if name != "NVTX_EVENTS" for row in tables[name][1]]
        try:
            trace = load_trace(path)
        except TraceError as error:
            assert not tables or "no kernel" in str(error)  # noqa: PT017 - both outcomes are checked
            assert not others
            assert not ranges
            return
        assert len(trace) == len(others) + len(ranges)
        with closing(sqlite3.connect(path)) as connection:
            for table in tables:
                check(trace, table, connection)


def check(trace: Trace, table: str, connection: sqlite3.Connection) -> None:
    where = "eventType in (59, 60)" if table == "NVTX_EVENTS" else "1"
    rows = np.flatnonzero(trace.in_category(*CATEGORIES[table]))
    sums = 'count(*), sum("end" - "start"), min("start"), max("end")'
    count, length, first, last = connection.execute(
        f"select {sums} from {table} where {where}"  # noqa: S608 - our own
    ).fetchone()
    assert len(rows) == count
    if not count:
        return
    assert sum(trace.duration[rows].tolist()) == length
    assert int(trace.start[rows].min()) + trace.origin == first
    assert int(trace.end[rows].max()) + trace.origin == last
    if table.endswith(("MEMCPY", "MEMSET")):
        (size,) = connection.execute(f"select sum(bytes) from {table}").fetchone()  # noqa: S608 - our own
        assert sum(trace.bytes[rows].tolist()) == size
    if "_KIND_M" in table or table.endswith("KERNEL"):
        placed = connection.execute(
            f"select deviceId, streamId, globalPid, count(*) from {table} group by 1, 2, 3"  # noqa: S608 - our own
        ).fetchall()
        tracks = [trace.tracks[number] for number in trace.track[rows].tolist()]
        for device, stream, owner, wanted in placed:
            known = -1 if stream == 2**32 - 1 else stream
            process = str((owner >> 24) & 0xFFFFFF)
            found = [
                t for t in tracks if (t.device, t.stream, t.process) == (device, known, process)
            ]
            assert len(found) == wanted
