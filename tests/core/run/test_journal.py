"""Journals, torn, damaged or growing: lines, headers, rows, and tables that hold them."""

import math
import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.run.files import NewerError
from perftui.run.journal import SCHEMA, Column, JournalReader, JournalWriter, LineTail
from perftui.run.table import GrowingTable

LONGEST = 20


@pytest.mark.slow
@settings(deadline=None)
@given(
    lines=st.lists(st.binary(max_size=60).map(lambda line: line.replace(b"\n", b"x")), max_size=12),
    pieces=st.lists(st.integers(1, 50), max_size=30),
    limit=st.integers(1, 40),
)
def test_lines_of_a_growing_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], pieces: list[int], limit: int
) -> None:
    path = tmp_path_factory.mktemp("tail") / "lines"
    content = b"".join(line + b"\n" for line in lines)
    tail, read = LineTail(path, LONGEST), []
    for piece in [*pieces, len(content)]:
        with path.open("ab") as file:
            file.write(content[:piece])
        content = content[piece:]
        read += tail.poll(limit)
    for _ in range(sum(map(len, lines)) + len(lines)):
        read += tail.poll(limit)

    # A line a little too long may have come in one read with its end: then it is taken.
    kept = [line for line in read if len(line) <= LONGEST]
    assert kept == [line for line in lines if 0 < len(line) <= LONGEST]
    assert len(read) + tail.skipped == sum(1 for line in lines if line)


def test_line_without_end_is_not_kept_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"first\n" + b"x" * 1000)
    tail = LineTail(path, LONGEST)
    assert tail.poll(50) == [b"first"]
    for _ in range(40):
        assert tail.poll(50) == []
    with path.open("ab") as file:
        file.write(b"x\nlast\n")
    assert tail.poll(50) == [b"last"]
    assert tail.skipped == 1


def test_absent_file_has_no_lines(tmp_path: Path) -> None:
    assert LineTail(tmp_path / "absent").poll() == []


def test_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        LineTail(tmp_path).poll()


COLUMNS = (Column("a", "ns"), Column("b"), Column("c"))

VALUES = st.one_of(
    st.none(),
    st.integers(-(2**62), 2**62),
    st.text(max_size=5),
    st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2),
)
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES).map(list), max_size=12)


def _cut(directory: Path, rows: list[list[Any]], data: st.DataObject) -> tuple[Path, bytes, bytes]:
    """A journal of ``rows`` that ends anywhere, what it holds, and what comes after."""
    path = directory / "journal.jsonl"
    writer = JournalWriter(path, COLUMNS)
    writer.append(rows)
    writer.close()
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    return path, content[:cut], content[cut:]


@pytest.mark.slow
@settings(deadline=None)
@given(rows=ROWS, data=st.data(), limit=st.integers(1, 80))
def test_journal_cut_at_any_byte_gives_its_whole_lines_and_later_all_of_them(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[Any]], data: st.DataObject, limit: int
) -> None:
    path, content, more = _cut(tmp_path_factory.mktemp("journal"), rows, data)
    reader = JournalReader(path)
    read = reader.poll()

    whole_lines = content.count(b"\n")
    assert read == rows[: max(0, whole_lines - 1)]
    assert reader.columns == (COLUMNS if whole_lines else ())
    with path.open("ab") as file:
        file.write(more)
    for _ in range(len(content + more)):
        read += reader.poll(limit)
    assert read == rows
    assert (reader.columns, reader.skipped) == (COLUMNS, 0)


@pytest.mark.slow
@settings(deadline=None)
@given(rows=ROWS, more=ROWS, data=st.data())
def test_writer_that_follows_a_dead_one_loses_only_the_torn_line(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[Any]],
    more: list[list[Any]],
    data: st.DataObject,
) -> None:
    path, content, _ = _cut(tmp_path_factory.mktemp("journal"), rows, data)
    writer = JournalWriter(path, COLUMNS)
    writer.append(more)
    writer.close()
    reader = JournalReader(path)
    read = reader.poll()

    kept = rows[: max(0, content.count(b"\n") - 1)]
    # A line that lacks nothing but its newline is not torn after all.
    completed = rows[len(kept) : len(kept) + 1]
    assert read in (kept + more, kept + completed + more)
    assert reader.columns == COLUMNS
    assert reader.skipped <= 1


@pytest.mark.parametrize(
    "line",
    [b"{}", b"[1,2]", b"[1,2,3,4]", b"nonsense", b"\xff\xfe", b"[" * 5000, b'"text"', b"[1,2,"],
)
def test_damaged_line_is_skipped_and_counted(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "j.jsonl"
    writer = JournalWriter(path, COLUMNS)
    writer.append([[1, 2, 3]])
    with path.open("ab") as file:
        file.write(line + b"\n")
    writer.append([[4, 5, 6]])
    writer.close()

    reader = JournalReader(path)

    assert reader.poll() == [[1, 2, 3], [4, 5, 6]]
    assert reader.skipped == 1


def test_absent_journal_is_empty_until_it_appears(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path / "later.jsonl")
    assert reader.poll() == []
    writer = JournalWriter(tmp_path / "later.jsonl", COLUMNS)
    writer.append([[1, "x", None]])
    writer.close()
    assert reader.poll() == [[1, "x", None]]
    assert reader.columns == COLUMNS


def test_appending_under_other_columns_is_refused(tmp_path: Path) -> None:
    JournalWriter(tmp_path / "j", COLUMNS).close()
    with pytest.raises(ValueError, match="other columns"):
        JournalWriter(tmp_path / "j", COLUMNS[:2])


def test_full_disk_tears_one_append_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = JournalWriter(tmp_path / "j", COLUMNS)
    writer.append([[1, 2, 3]])
    real_write = os.write
    room = [5]

    def write(file: int, data: bytes) -> int:
        if room[0] == 0:
            raise OSError(28, "No space left on device")
        written = real_write(file, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space"):
        writer.append([[4, 5, 6], [7, 8, 9]])
    monkeypatch.setattr(os, "write", real_write)
    writer.append([[10, 11, 12]])
    writer.close()

    reader = JournalReader(tmp_path / "j")
    assert reader.poll() == [[1, 2, 3], [10, 11, 12]]
    assert reader.skipped == 1


def test_journal_is_private_and_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "j.jsonl"
    writer = JournalWriter(path, COLUMNS)
    writer.append([[1, "x", {"k": 2}]])
    writer.close()
    header, row = path.read_bytes().splitlines()
    assert [column["name"] for column in msgspec.json.decode(header)["columns"]] == ["a", "b", "c"]
    assert msgspec.json.decode(row) == [1, "x", {"k": 2}]
    assert path.stat().st_mode & 0o777 == 0o600


def test_journal_of_a_newer_version_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_text(f'{{"columns": "of another kind", "schema": {SCHEMA + 1}}}\n[1]\n')
    reader = JournalReader(path)
    for _ in range(2):
        with pytest.raises(NewerError, match=f"{path}: written by a newer perftui"):
            reader.poll()
    with pytest.raises(NewerError):
        JournalWriter(path, COLUMNS)
    path.write_text(f'{{"columns": [{{"name": "n"}}], "schema": {SCHEMA}, "more": 1}}\n[1]\n')
    assert JournalReader(path).poll() == [[1]]


HELD = (Column("n"), Column("m"), Column("data"))
INTEGERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.one_of(st.text(max_size=4), st.lists(st.integers(), max_size=2), st.just({"k": [1]}))
BATCHES = st.lists(st.lists(st.tuples(INTEGERS, INTEGERS, TEXTS), max_size=40), max_size=8)


@pytest.mark.slow
@settings(deadline=None)
@given(batches=BATCHES)
def test_integers_of_a_table_equal_a_list_of_rows(batches: list[list[tuple[Any, ...]]]) -> None:
    table = GrowingTable(HELD, floats=False)
    oracle: list[tuple[Any, ...]] = []
    snapshots = []
    for batch in batches:
        table.extend(batch)
        oracle += batch
        snapshots.append((table.freeze(), len(oracle)))
    for snapshot, length in snapshots:
        rows = oracle[:length]
        assert len(snapshot) == length
        assert snapshot["n"].tolist() == [-1 if row[0] is None else row[0] for row in rows]
        assert snapshot["m"].tolist() == [-1 if row[1] is None else row[1] for row in rows]
        assert snapshot["data"].tolist() == [row[2] for row in rows]
    assert table.refused == 0


@settings(deadline=None)
@given(values=st.lists(st.one_of(st.none(), st.integers(-9, 9), st.floats()), max_size=100))
def test_floats_keep_a_missing_value_as_nan(values: list[float | None]) -> None:
    table = GrowingTable((Column("x"),), floats=True)
    for value in values:
        table.extend([[value]])
    expected = [math.nan if value is None else float(value) for value in values]
    assert np.array_equal(table.freeze()["x"], np.array(expected), equal_nan=True)


@pytest.mark.parametrize("bad", ["7", 1.5, 2**63, -(2**63) - 1, [1], {"a": 1}, 2**70])
def test_row_that_does_not_fit_is_left_out_and_counted(bad: object) -> None:
    table = GrowingTable(HELD, floats=False)
    table.extend([[1, 2, "a"], [3, bad, "b"], [5, 6, "c"]])
    frozen = table.freeze()
    assert frozen["n"].tolist() == [1, 5]
    assert frozen["m"].tolist() == [2, 6]
    assert frozen["data"].tolist() == ["a", "c"]
    assert table.refused == 1


def test_snapshot_of_a_table_cannot_be_written() -> None:
    table = GrowingTable((Column("x"),), floats=False)
    table.extend([[1]])
    with pytest.raises(ValueError, match="read-only"):
        table.freeze()["x"][0] = 2


def test_where_takes_the_rows_of_its_mask() -> None:
    table = GrowingTable((Column("x"),), floats=False)
    table.extend([[1], [2], [3]])
    frozen = table.freeze()
    assert frozen.where(frozen["x"] > 1)["x"].tolist() == [2, 3]
