"""Traces that were made to do harm: they are data, or refused with a sentence."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

from perftui.trace.formats import load_trace
from perftui.trace.model import TraceError
from perftui.trace.ncu import load_ncu
from perftui.trace.nsys.database import open_database

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
DEPTH = 200_000


@pytest.mark.parametrize("kind", ["table", "view"])
def test_views_and_triggers_of_a_database_run_nothing(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    with sqlite3.connect(path) as made:
        columns = "start integer, end integer, deviceId integer"
        if kind == "table":
            made.execute(f"create table {KERNELS} ({columns})")
            made.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (1, 5, 0)")
            made.execute(
                f"create trigger t after insert on {KERNELS} begin select load_extension('x'); end"
            )
        else:
            made.execute(f"create view {KERNELS} as select load_extension('x') as start, 5 as end")
    before = path.read_bytes()
    if kind == "view":
        with pytest.raises(TraceError, match="not an Nsight Systems export"):
            load_trace(path)
    else:
        assert len(load_trace(path)) == 1
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["trace.sqlite"]


def test_a_database_can_neither_write_nor_load(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    with sqlite3.connect(path) as made:
        made.execute(f"create table {KERNELS} (start integer, end integer)")
    with open_database(path).connect() as connection:
        for statement in ("select load_extension('x')", f"drop table {KERNELS}"):
            with pytest.raises(sqlite3.OperationalError):
                connection.execute(statement)
        assert connection.execute("pragma trusted_schema").fetchone() == (0,)


@pytest.mark.parametrize(
    "text",
    [
        "[" * DEPTH,
        '{"traceEvents":' + "[" * DEPTH,
        '{"traceEvents":[{"ph":"X","ts":1,"dur":1,"name":"a","args":' + "[" * DEPTH,
        '{"traceEvents":[{"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"a","args":'
        + '{"a":' * DEPTH
        + "1"
        + "}" * DEPTH
        + "}]}",
        '{"traceEvents":[{"ph":"X","ts":NaN,"dur":1e999,"pid":1,"tid":1,"name":"a"}]}',
        '{"traceEvents":[{"ph":"X","ts":' + "9" * 5000 + ',"dur":1,"pid":1,"tid":1,"name":"a"}]}',
    ],
    ids=["arrays", "events", "cut", "arguments", "numbers", "digits"],
)
def test_deeply_nested_files_are_refused(text: str, tmp_path: Path) -> None:
    """Refused, or without what cannot be read; nothing recurses until it crashes."""
    path = tmp_path / "trace.json"
    path.write_text(text)
    with suppress(TraceError):
        assert len(load_trace(path)) <= 1


def test_numbers_of_any_length_in_metrics_are_no_figures(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    head = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
    row = f'"0","gemm","gpu__time_duration.sum","nsecond","{"9" * 5000}"\n'
    path.write_text(f'{head}{row}"1","{"x" * 200_000}","a","b","nan"\n')
    with suppress(TraceError):
        assert len(load_ncu(path)) <= 2
