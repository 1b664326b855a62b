from __future__ import annotations

import gzip
import io
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace.kineto import source as module
from perftui.trace.kineto.source import DamagedGzip, State, inflate


@pytest.fixture(params=["fastest", "standard"], autouse=True)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard library stands in where zlib-ng has no wheel."""
    if request.param == "standard":
        monkeypatch.setattr(module, "zlib", zlib)


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
