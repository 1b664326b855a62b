"""A file of arrays that are used where they lie: only a short header is ever parsed.

The start (``_START``): magic, key, digest of the header, its length, the size of the file, and the
checksum of all that follows the header. Then the header (JSON), and behind it the arrays as they
are in memory, each at a multiple of 64 bytes.
"""

from __future__ import annotations

import io
import mmap
import os
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from perftui.trace.cache.identity import SIZE, digest
from perftui.trace.cache.packing import Array
from perftui.trace.errors import LoadCancelled
from perftui.trace.kineto.inflate import zlib

_MAGIC = b"perftui\1"
_START = struct.Struct(f"<8s{SIZE}s{SIZE}sQQI")
_ALIGN = 64
_PIECE = 256 * 1024
"""Bytes that are read at once: what fits a core's cache is summed twice as fast."""


class Place(msgspec.Struct, array_like=True, frozen=True):
    """Where an array lies, counted from the first multiple of 64 bytes behind the header."""

    dtype: str
    offset: int
    length: int


class Header(msgspec.Struct, frozen=True):
    """All that is not an array."""

    document: msgspec.Raw
    places: tuple[Place, ...]


@dataclass(frozen=True, eq=False)
class Record:
    """What a file holds; the arrays are mapped and cannot be written to."""

    document: bytes | msgspec.Raw
    columns: Sequence[Array]


def read_record(path: Path, key: bytes) -> Record | None:
    """The record with that key; None where there is none, or none that is whole and ours.

    Every byte is read before any is used, which takes 0.12 s a GB: what the disk cannot give is an
    error here, but ends the process where it is mapped.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return _read(file, key)
    except OSError:
        return None


def _read(file: io.BufferedReader, key: bytes) -> Record | None:
    status = os.fstat(file.fileno())
    start = file.read(_START.size)
    is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    if not is_ours or len(start) < _START.size:
        return None
    magic, its_key, header_digest, length, size, checksum = _START.unpack(start)
    if (magic, its_key, size) != (_MAGIC, key, status.st_size) or length > size:
        return None
    text = file.read(length)
    if digest(text) != header_digest or checksum_of_rest(file) != checksum:
        return None
    header = msgspec.json.decode(text, type=Header)
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    body = _aligned(_START.size + length)
    return Record(header.document, [_array(mapped, body, place) for place in header.places])


def checksum_of_rest(file: io.BufferedReader) -> int:
    """The CRC-32 of what follows in the file, read in pieces."""
    value: int = 0
    buffer = memoryview(bytearray(_PIECE))
    while count := file.readinto(buffer):
        value = zlib.crc32(buffer[:count], value)
    return value


def _array(mapped: mmap.mmap, body: int, place: Place) -> Array:
    if not place.length:
        empty: Array = np.frombuffer(b"", dtype=place.dtype)
        return empty
    return np.frombuffer(mapped, place.dtype, place.length, body + place.offset)


def write_record(
    file: io.BufferedWriter, key: bytes, record: Record, stopped: Callable[[], bool]
) -> None:
    """Write all of it. Raises LoadCancelled where ``stopped``, which is asked between pieces of
    256 KiB, says so."""
    arrays = [np.ascontiguousarray(column) for column in record.columns]
    text = msgspec.json.encode(Header(msgspec.Raw(record.document), tuple(_places(arrays))))
    file.write(bytes(_START.size))
    file.write(text)
    checksum = 0
    for piece in _pieces(arrays, _START.size + len(text)):
        if stopped():
            raise LoadCancelled
        checksum = zlib.crc32(piece, checksum)
        file.write(piece)
    size = file.tell()
    file.seek(0)
    file.write(_START.pack(_MAGIC, key, digest(text), len(text), size, checksum))


def size_of(record: Record) -> int:
    """Bytes that its arrays take, and about those of all else."""
    return len(bytes(record.document)) + sum(column.nbytes for column in record.columns)


def _places(arrays: Sequence[Array]) -> Iterator[Place]:
    offset = 0
    for array in arrays:
        yield Place(array.dtype.str, offset, len(array))
        offset = _aligned(offset + array.nbytes)


def _pieces(arrays: Sequence[Array], position: int) -> Iterator[bytes | memoryview]:
    """The arrays with what fills up before each, from ``position`` in the file on."""
    for array in arrays:
        gap = _aligned(position) - position
        yield bytes(gap)
        position += gap + array.nbytes
        view = array.view(np.uint8).data
        for begin in range(0, len(view), _PIECE):
            yield view[begin : begin + _PIECE]


def _aligned(position: int) -> int:
    return -(-position // _ALIGN) * _ALIGN
