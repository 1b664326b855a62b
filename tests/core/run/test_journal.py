"""Journals: lines, headers and rows, torn, damaged or growing."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.run.files import NewerError
from perftui.run.journal import SCHEMA, Column, JournalReader, JournalWriter, LineTail

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


def _content(directory: Path, rows: list[list[Any]]) -> bytes:
    path = directory / "whole.jsonl"
    path.unlink(missing_ok=True)
    writer = JournalWriter(path, COLUMNS)
    writer.append(rows)
    writer.close()
    return path.read_bytes()


@pytest.mark.slow
@settings(deadline=None)
@given(rows=ROWS, data=st.data(), limit=st.integers(1, 80))
def test_journal_cut_at_any_byte_gives_its_whole_lines_and_later_all_of_them(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[Any]], data: st.DataObject, limit: int
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    content = _content(directory, rows)
    cut = data.draw(st.integers(0, len(content)))
    path = directory / "cut.jsonl"
    path.write_bytes(content[:cut])

    reader = JournalReader(path)
    read = reader.poll()

    whole_lines = content[:cut].count(b"\n")
    assert read == rows[: max(0, whole_lines - 1)]
    assert reader.columns == (COLUMNS if whole_lines else ())
    with path.open("ab") as file:
        file.write(content[cut:])
    for _ in range(len(content)):
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
    directory = tmp_path_factory.mktemp("journal")
    content = _content(directory, rows)
    cut = data.draw(st.integers(0, len(content)))
    path = directory / "cut.jsonl"
    path.write_bytes(content[:cut])

    writer = JournalWriter(path, COLUMNS)
    writer.append(more)
    writer.close()
    reader = JournalReader(path)
    read = reader.poll()

    kept = rows[: max(0, content[:cut].count(b"\n") - 1)]
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
