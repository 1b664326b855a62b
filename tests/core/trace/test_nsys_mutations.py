"""Damaged exports load as far as they can be read, or say why not, and never do anything else."""

import random
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from perftui.analysis.timeline.tracks import timeline_tracks
from perftui.trace.model import Trace, TraceError
from tests.core.trace import nsys_exports as nsys
from tests.core.trace import specimens
from tests.core.trace.test_nsys_generations import GENERATIONS, STRINGS

pytestmark = pytest.mark.fuzz

Event = tuple[str, int, int]
STEPS = 150
PAGE = 4096
CALLS = {"cuda_runtime": "call", "cuda_driver": "call", "unknown call": "call"}
"""Which of both it is shows in a name, which may be lost."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An export of 2024 with some pages of each table."""
    tables = GENERATIONS["2024.5"]()
    # Of these only the rows count that lie within all others: they go when others go.
    del tables["PROFILER_OVERHEAD"]
    for table in list(tables):
        columns, rows = tables[table]
        if "start" in columns:
            tables[table] = columns, [moved(row, 10_000 * i) for i in range(STEPS) for row in rows]
    names = {1000 + i: f"a name that nothing uses, number {i}" for i in range(STEPS)}
    path = nsys.write(tmp_path_factory.mktemp("whole") / "a.sqlite", tables, {**STRINGS, **names})
    return path.read_bytes()


def moved(row: Any, by: int) -> tuple[Any, ...]:
    return row[0] + by, row[1] + by if row[1] else row[1], *row[2:]


def opened(path: Path, raw: bytes) -> Trace | None:
    """The trace, with all that is asked of one; None if it is refused."""
    trace = specimens.opened(path, raw)
    if trace is not None:
        assert (trace.duration >= 0).all()
        timeline_tracks(trace)
        for row in range(0, len(trace), max(1, len(trace) // 5)):
            with suppress(TraceError):
                trace.read_arguments(row)
    return trace


def events(trace: Trace) -> Counter[Event]:
    kinds = [CALLS.get(kind, kind) for kind in trace.categories]
    columns = (trace.category, trace.start + trace.origin, trace.duration)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Counter((kinds[kind], start, duration) for kind, start, duration in rows)


@pytest.mark.slow
def test_a_page_that_is_lost_takes_rows_of_one_table_and_is_reported(
    tmp_path: Path, whole: bytes
) -> None:
    path = tmp_path / "a.sqlite"
    intact = opened(path, whole)
    assert intact is not None
    expected = events(intact)
    outcomes: Counter[str] = Counter()
    for page in range(len(whole) // PAGE):
        for fill in (bytes(PAGE), b"\xa5" * PAGE, random.Random(page).randbytes(PAGE)):  # noqa: S311 - damages
            trace = opened(path, whole[: page * PAGE] + fill + whole[(page + 1) * PAGE :])
            if trace is None:
                outcomes["refused"] += 1
                continue
            found = events(trace)
            assert not found - expected
            lost = {kind for kind, _, _ in expected - found}
            assert len(lost) <= 1
            if lost:
                assert "damaged" in " ".join(each.message for each in trace.warnings)
            outcomes["lost" if lost else "kept"] += 1
    assert outcomes["lost"] > 30
    assert outcomes["kept"] > 10
    assert outcomes["refused"] < 10


@pytest.mark.slow
@pytest.mark.parametrize("version", GENERATIONS)
def test_an_export_that_is_cut_off_anywhere(tmp_path: Path, whole: bytes, version: str) -> None:
    path = tmp_path / "a.sqlite"
    raw = nsys.write(path, GENERATIONS[version](), STRINGS).read_bytes()
    raw = whole if version == "2024.5" else raw
    intact = opened(path, raw)
    assert intact is not None
    expected = events(intact)
    middles = range(1, len(raw), max(1, len(raw) // 60))
    for length in (*middles, *(len(raw) - missing for missing in (1, 2, 7, 99, 1000, 3000))):
        trace = opened(path, raw[:length])
        if trace is not None:
            wrong = events(trace) - expected
            said = [each.message for each in trace.warnings]
            assert wrong.total() <= any("cut off" in each for each in said)
            told = [each for each in said if "damaged" in each or "cut off" in each]
            assert told or len(trace) == len(intact)


ODD = (None, "abc", b"\x00\xff", "", 2**63 - 1, -(2**63), -1, 0, 1e300, float("inf"), 2**32, "12")


@pytest.mark.slow
@pytest.mark.parametrize("version", GENERATIONS)
def test_values_that_no_column_should_hold(tmp_path: Path, version: str) -> None:
    path = tmp_path / "a.sqlite"
    tables = {**GENERATIONS[version](), "StringIds": ("id, value", [])}
    raw = nsys.write(path, GENERATIONS[version](), STRINGS).read_bytes()
    for seed in range(80):
        chance = random.Random(seed)  # noqa: S311 - damages
        path.write_bytes(raw)
        with closing(sqlite3.connect(path)) as connection:
            for _ in range(chance.choice([1, 3, 10])):
                table = chance.choice(sorted(tables))
                column = chance.choice(tables[table][0].split(", "))
                if (table, column) != ("StringIds", "id"):
                    connection.execute(
                        f'update {table} set "{column}" = ? where rowid % ? = 0',  # noqa: S608 - our own
                        (chance.choice(ODD), chance.choice([1, 2])),
                    )
            connection.commit()
        opened(path, path.read_bytes())


def test_a_list_of_tables_that_names_none(tmp_path: Path, whole: bytes) -> None:
    """Damage makes a blob of a table's name."""
    path = tmp_path / "a.sqlite"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma writable_schema = on")
        connection.execute("update sqlite_master set name = x'00ff' where name = 'MPI_P2P_EVENTS'")
        connection.commit()
    trace = opened(path, path.read_bytes())
    assert "MPI_Send" not in trace.names
    assert trace.in_category("kernel").sum() == STEPS
