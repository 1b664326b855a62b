"""Text of traces, plain and packed: read again in parts, made safe to show, and refused."""

import gzip
import io
import sqlite3
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace.formats import load_trace
from perftui.trace.kineto import source as source_module
from perftui.trace.kineto.source import PIECE, DamagedGzip, Source, State, inflate
from perftui.trace.model import TraceError
from perftui.trace.ncu import load_ncu
from perftui.trace.nsys.database import open_database
from perftui.trace.text import printable


def test_reading_far_into_a_file_is_paid_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was not read from its start, as one of which the columns were kept."""
    text = np.random.default_rng(0).integers(32, 90, 3_000_000, dtype=np.uint8).tobytes()
    path = tmp_path / "far.json.gz"
    path.write_bytes(gzip.compress(text, 1))
    monkeypatch.setattr(source_module, "_CHECKPOINT_EVERY", 2 * PIECE)
    pieces: list[bytes] = []

    def counted(*given: Any) -> Iterator[tuple[bytes, State]]:
        for piece, state in inflate(*given):
            pieces.append(piece)
            yield piece, state

    monkeypatch.setattr(source_module, "inflate", counted)
    source = Source(path)
    counts = []
    for offset in (2_900_000, 2_900_000, 1_500_000, 10, 2_999_900):
        pieces.clear()
        assert source.read_at(offset, 100) == text[offset : offset + 100]
        counts.append(len(pieces))
    assert counts[0] >= 10
    assert max(counts[1:]) <= 4


@pytest.fixture(params=["fastest", "standard"], autouse=True)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard library stands in where zlib-ng has no wheel."""
    if request.param == "standard":
        monkeypatch.setattr(source_module, "zlib", zlib)


MEMBERS = (b"", b"abc" * 5000, b"x", bytes(range(256)) * 40)
PACKED = b"".join(gzip.compress(member) for member in MEMBERS)


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize("padding", [0, 1, 600])
def test_members_in_pieces_of_any_size(size: int, padding: int) -> None:
    pieces = [piece for piece, _ in inflate(io.BytesIO(PACKED + bytes(padding)), size)]
    assert b"".join(pieces) == b"".join(MEMBERS)
    assert max(map(len, pieces)) <= max(size, 32 * 1024)


@pytest.mark.parametrize("size", [9, 100, 5000])
def test_inflating_is_taken_up_at_any_piece(size: int) -> None:
    whole = b"".join(MEMBERS)
    position = 0
    states: list[tuple[int, State]] = []
    for piece, state in inflate(io.BytesIO(PACKED), size):
        position += len(piece)
        states.append((position, State(state.consumed, state.inflater.copy())))
    for position, state in states[:: max(1, len(states) // 25)]:
        rest = b"".join(piece for piece, _ in inflate(io.BytesIO(PACKED), size, state))
        assert rest == whole[position:]


def test_a_cut_gives_what_was_there_and_then_says_so() -> None:
    pieces: list[bytes] = []
    stream = (piece for piece, _ in inflate(io.BytesIO(PACKED[:60]), 10))
    with pytest.raises(DamagedGzip, match="cut off"):
        pieces.extend(stream)
    assert b"".join(pieces)
    assert b"".join(MEMBERS).startswith(b"".join(pieces))


def test_a_wrong_checksum_is_damage() -> None:
    packed = bytearray(gzip.compress(b"abc"))
    packed[-6] ^= 1
    with pytest.raises(DamagedGzip, match="damaged"):
        list(inflate(io.BytesIO(bytes(packed)), 100))


@given(st.binary(max_size=60))
def test_anything_else_is_damage(raw: bytes) -> None:
    with pytest.raises(DamagedGzip):
        list(inflate(io.BytesIO(b"\x1f\x8b" + raw), 16))


@pytest.mark.parametrize("size", [1, 100, 4096, 1 << 20])
def test_all_before_a_fault_is_given_out(size: int) -> None:
    whole = b"".join(b"%d;" % number for number in range(60_000))
    packed = bytearray(gzip.compress(whole, mtime=0))
    packed[-8] ^= 1
    pieces: list[bytes] = []
    stream = (piece for piece, _ in inflate(io.BytesIO(bytes(packed)), size))
    with pytest.raises(DamagedGzip, match="damaged"):
        pieces.extend(stream)
    assert b"".join(pieces) == whole


@pytest.mark.slow
@given(st.integers(12, len(PACKED) - 1), st.integers(1, 255), st.sampled_from([1, 50, 1 << 18]))
def test_the_size_of_pieces_decides_on_a_few_bytes_at_most(at: int, bits: int, size: int) -> None:
    damaged = bytearray(PACKED)
    damaged[at] ^= bits
    shorter, longer = sorted((salvaged(bytes(damaged), size), salvaged(bytes(damaged), 7)), key=len)
    assert longer.startswith(shorter)
    assert len(longer) - len(shorter) < 16


def salvaged(packed: bytes, size: int) -> bytes:
    text = bytearray()
    try:
        for piece, _ in inflate(io.BytesIO(packed), size):
            text += piece
    except DamagedGzip:
        pass
    return bytes(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aten::mm", "aten::mm"),
        ("red \x1b[31m", "red \\x1b[31m"),
        ("a\tb\nc", "a\\x09b\\x0ac"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202edef", "abc\\u202edef"),
        ("abc\u061cdef", "abc\\u061cdef"),
        ("\ud800", "\\ud800"),
        ("Größe 批 🙂", "Größe 批 🙂"),
    ],
)
def test_control_characters_are_spelled_out(text: str, expected: str) -> None:
    assert printable(text) == expected


@given(st.text(st.characters()))
def test_nothing_is_left_that_a_terminal_acts_on(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert not any(unicodedata.category(character) in {"Cc", "Cs"} for character in shown)


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
