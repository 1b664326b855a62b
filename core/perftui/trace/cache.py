"""Cached traces, found by the path of the file and used only if it and our code are unchanged.

The directory is readable only by its owner, and its size is bounded: the disk also belongs to
trainings."""

from __future__ import annotations

import hashlib
import io
import mmap
import os
import shutil
import stat
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt

from perftui import __version__
from perftui.run.files import open_regular, user_directory
from perftui.trace.kineto.source import zlib
from perftui.trace.model import LoadCancelled

VARIABLE = "PERFTUI_CACHE"
_OFF = ("0", "off", "no", "false")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_directory() -> Path | None:
    """``traces`` in ``$PERFTUI_CACHE``, or else in ``perftui`` in ``$XDG_CACHE_HOME`` or
    ``~/.cache``. None if the variable says ``off`` or ``0``, and for a user without a home."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen.lower() in _OFF:
        return None
    if chosen:
        return Path(chosen).absolute() / "traces"
    own = user_directory("XDG_CACHE_HOME", ".cache")
    return own / "traces" if own.is_absolute() else None


def make_private(directory: Path) -> None:
    """Make it and missing parents, for the owner only. Raises OSError."""
    for folder in (*reversed(directory.parents), directory):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)


def is_private(directory: Path) -> bool:
    """Whether ``directory`` exists, is ours, and nobody else can put files into it."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return is_ours and not status.st_mode & _OTHERS_WRITE


_END = 64 * 1024
"""Bytes at each end of the file that are hashed."""

SIZE = 32
"""Bytes in an identity."""


def file_identity(path: Path) -> bytes | None:
    """Distinguishes files, and states of one file, without reading all of it.

    Its size, the times of its last changes, its inode and the first and last 64 KiB. The time of
    the inode's change is included because programs that copy may restore the other. None for
    unreadable files and for anything but a regular file: a pipe can be read only once.

    The journals of a database count too: their content is not in the file, and causes a warning. A
    change that was written to the file shows in its first 64 KiB: SQLite counts changes there.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            ends = file.read(_END)
            file.seek(max(len(ends), status.st_size - _END))
            ends += file.read(_END)
    except OSError:
        return None
    times = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino} "
    for journal in journals_of(path):
        size = 0
        with suppress(OSError):
            size = journal.stat().st_size
        times += f"{size} "
    return digest(times.encode() + ends)


def journals_of(path: Path) -> tuple[Path, ...]:
    """Files in which SQLite keeps changes not yet written to a database."""
    return tuple(path.with_name(path.name + suffix) for suffix in ("-wal", "-journal"))


def code_identity(*rooms: Path) -> bytes:
    """The version of perftui and the sources of these packages.

    A cached trace is right only for the code that made it: a new field or a corrected number
    changes the identity without anybody's care. Reading and hashing 80 files takes 2.5 ms.
    """
    state = hashlib.blake2b(f"{__version__} {sys.byteorder} ".encode(), digest_size=SIZE)
    for room in rooms:
        for source in sorted(file for kind in ("py", "c", "h") for file in room.rglob(f"*.{kind}")):
            text = source.read_bytes()
            state.update(f"{source.relative_to(room)} {len(text)} ".encode())
            state.update(text)
    return state.digest()


def digest(text: bytes) -> bytes:
    """A checksum of ``SIZE`` bytes without collisions."""
    return hashlib.blake2b(text, digest_size=SIZE).digest()


COLUMNS = ".columns"
"""Suffix of the columns and tables of a trace."""

EXPORT = ".sqlite"
"""Suffix of exports of reports."""

PARTIAL = ".partial"
"""Suffix of files and directories while they are written."""

MOST_BYTES = 2 << 30
"""Most bytes in all; the least recently used give way."""

_LEFT_FREE = 1 << 30
"""Bytes of the disk that stay free: a training may be about to write a checkpoint there."""

_ABANDONED = 3600.0
"""Seconds after which an unfinished file has no writer any more."""


def has_room(directory: Path, size: int, most_bytes: int = MOST_BYTES) -> bool:
    """Whether ``size`` more bytes can be kept. Raises OSError."""
    free = shutil.disk_usage(directory).free
    return size <= most_bytes and size + _LEFT_FREE <= free


def make_room(directory: Path, most_bytes: int = MOST_BYTES) -> None:
    """Remove the least recently used files until the rest is small enough, and leftovers of killed
    writers. Raises OSError."""
    entries: list[tuple[float, int, Path]] = []
    for path in directory.iterdir():
        with suppress(FileNotFoundError):
            status = path.stat()
            if path.suffix in (COLUMNS, EXPORT):
                # Using an export does not change it: only the time of access shows it.
                entries.append((max(status.st_mtime, status.st_atime), status.st_size, path))
            elif path.suffix == PARTIAL:
                is_directory = path.is_dir() and not path.is_symlink()
                contents = (path, *(path.iterdir() if is_directory else ()))
                if time.time() - max(path_.stat().st_mtime for path_ in contents) <= _ABANDONED:
                    continue
                if is_directory:
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()
    total = 0
    for _, size, path in sorted(entries, reverse=True):
        total += size
        if total > most_bytes:
            path.unlink(missing_ok=True)


Array = npt.NDArray[Any]
Kind = TypeVar("Kind")

_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


class CannotBeKept(ValueError):  # noqa: N818 - says what is so, and is no fault
    """A value would change on its way: JSON cannot express it (NaN, half a character)."""


def pack(value: Any, columns: list[Array], leave_out: Collection[str] = ()) -> bytes:
    """The fields of a dataclass as JSON; its arrays are appended to ``columns``.

    Fields may hold arrays, dataclasses with arrays, tuples of those, and anything else that JSON
    can express. Raises CannotBeKept.
    """
    hints, packed = _hints(type(value)), {}

    def number_of(array: Array) -> int:
        columns.append(array)
        return len(columns) - 1

    for field in fields(value):
        if not field.init or field.name in leave_out:
            continue
        own, hint, count = getattr(value, field.name), hints[field.name], len(columns)
        try:
            text = msgspec.json.encode(own, enc_hook=number_of)
            # Fields with arrays otherwise hold only names and numbers.
            if len(columns) == count and msgspec.json.decode(text, type=hint) != own:
                raise CannotBeKept(f"JSON cannot say {hint} exactly")
        except (UnicodeEncodeError, msgspec.DecodeError) as error:
            raise CannotBeKept(str(error)) from error
        packed[field.name] = msgspec.Raw(text)
    return msgspec.json.encode(packed)


def unpack(
    kind: type[Kind], document: bytes | msgspec.Raw, columns: Sequence[Array], **given: Any
) -> Kind:
    """The value given to ``pack``; ``given`` are the fields that were left out."""
    hints = _hints(kind)
    texts = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    values = {
        name: msgspec.json.decode(text, type=hints[name], dec_hook=lambda _, at: columns[at])
        for name, text in texts.items()
    }
    return kind(**values, **given)


_MAGIC = b"perftui\1"
_START = struct.Struct(f"<8s{SIZE}s{SIZE}sQQI")
"""Magic, key, digest of the header, its length, the size of the file, and the checksum of
everything after the header. Then come the header (JSON), and the arrays as they are in memory, each
at a multiple of 64 bytes."""
_ALIGN = 64
_PIECE = 256 * 1024
"""Bytes that are read at once: a piece that fits a core's cache is summed twice as fast."""


class ArrayPlace(msgspec.Struct, array_like=True, frozen=True):
    """Position of an array, counted from the first multiple of 64 bytes after the header."""

    dtype: str
    offset: int
    length: int


class Header(msgspec.Struct, frozen=True):
    """Everything but the arrays."""

    document: msgspec.Raw
    places: tuple[ArrayPlace, ...]


@dataclass(frozen=True, eq=False)
class Record:
    """Content of a file; the arrays are mapped and read-only."""

    document: bytes | msgspec.Raw
    columns: Sequence[Array]


def read_record(path: Path, key: bytes) -> Record | None:
    """The record with that key; None if there is none that is complete and ours.

    Every byte is read before any is used, which takes 0.12 s a GB: a disk error is an error here,
    but would end the process if it came from mapped memory.
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
    columns = [
        np.frombuffer(mapped, place.dtype, place.length, body + place.offset)
        if place.length
        else np.frombuffer(b"", place.dtype)
        for place in header.places
    ]
    return Record(header.document, columns)


def checksum_of_rest(file: io.BufferedReader) -> int:
    """The CRC-32 of the rest of the file, read in pieces."""
    value: int = 0
    buffer = memoryview(bytearray(_PIECE))
    while count := file.readinto(buffer):
        value = zlib.crc32(buffer[:count], value)
    return value


def write_record(
    file: io.BufferedWriter, key: bytes, record: Record, stopped: Callable[[], bool]
) -> None:
    """Write all of it. Raises LoadCancelled if ``stopped``, which is called between pieces of 256
    KiB, returns True."""
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
    """Bytes of its arrays and, roughly, of everything else."""
    return len(bytes(record.document)) + sum(column.nbytes for column in record.columns)


def _places(arrays: Sequence[Array]) -> Iterator[ArrayPlace]:
    offset = 0
    for array in arrays:
        yield ArrayPlace(array.dtype.str, offset, len(array))
        offset = _aligned(offset + array.nbytes)


def _pieces(arrays: Sequence[Array], position: int) -> Iterator[bytes | memoryview]:
    """The arrays with padding before each, from ``position`` in the file on."""
    for array in arrays:
        gap = _aligned(position) - position
        yield bytes(gap)
        position += gap + array.nbytes
        view = array.view(np.uint8).data
        for begin in range(0, len(view), _PIECE):
            yield view[begin : begin + _PIECE]


def _aligned(position: int) -> int:
    return -(-position // _ALIGN) * _ALIGN


@dataclass(frozen=True)
class Store:
    """One directory of cached traces. Files that cannot be read or written count as missing."""

    directory: Path
    most_bytes: int = MOST_BYTES

    def find(self, source: Path, key: bytes) -> Record | None:
        """The record of ``source`` under ``key``; None if it is missing or damaged."""
        if not is_private(self.directory):
            return None
        place = self._place(source)
        record = read_record(place, key)
        if record is not None:
            with suppress(OSError):
                os.utime(place)
        return record

    def keep(self, source: Path, key: bytes, record: Record, stopped: Callable[[], bool]) -> bool:
        """Replace the record of ``source``; returns whether it was kept.

        ``stopped`` is called between pieces of 256 KiB.
        """
        try:
            make_private(self.directory)
            if is_private(self.directory) and has_room(
                self.directory, size_of(record), self.most_bytes
            ):
                self._write(self._place(source), key, record, stopped)
                make_room(self.directory, self.most_bytes)
                return True
        except (OSError, LoadCancelled):
            pass
        return False

    def _place(self, source: Path) -> Path:
        return self.directory / (cache_name(source) + COLUMNS)

    def _write(self, place: Path, key: bytes, record: Record, stopped: Callable[[], bool]) -> None:
        handle, temporary = tempfile.mkstemp(dir=self.directory, suffix=PARTIAL)
        try:
            with os.fdopen(handle, "wb") as file:
                write_record(file, key, record, stopped)
            # Not forced to the disk: a file torn by a crash fails its checksum.
            Path(temporary).replace(place)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def cache_name(source: Path) -> str:
    """Prefix of the names of all cached files of one source: the same for all its links."""
    return hashlib.blake2b(os.fsencode(os.path.realpath(source)), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Exports:
    """One directory of cached exports. Files that cannot be read or written count as missing.

    An export is named by the path of its report, the identity of that, and its own checksum: it is
    found only for the same report, and only complete.
    """

    directory: Path
    most_bytes: int = MOST_BYTES

    def find(self, report: Path, identity: bytes) -> Path | None:
        """The export of ``report``; None if it is missing or damaged.

        Every byte is read, which takes a fraction of the time of reading its rows.
        """
        if not is_private(self.directory):
            return None
        for path in self.directory.glob(f"{_export(report, identity)}-*{EXPORT}"):
            with suppress(OSError):
                if path.stem.endswith(f"-{_checksum(path):08x}"):
                    touch(path)
                    return path
        return None

    def workplace(self) -> Path | None:
        """A new empty directory to export into; None if there is no room for an export."""
        try:
            make_private(self.directory)
            if is_private(self.directory) and has_room(self.directory, 0, self.most_bytes):
                return Path(tempfile.mkdtemp(dir=self.directory, suffix=PARTIAL))
        except OSError:
            pass
        return None

    def keep(self, report: Path, identity: bytes, export: Path) -> Path | None:
        """Move an export from ``workplace`` to its final name; None if it is not kept."""
        try:
            if export.stat().st_size > self.most_bytes or not has_room(self.directory, 0):
                return None
            name = f"{_export(report, identity)}-{_checksum(export):08x}{EXPORT}"
            export.chmod(0o600)
            export.replace(self.directory / name)
        except OSError:
            return None
        with suppress(OSError):
            for path in self.directory.glob(f"{cache_name(report)}-*{EXPORT}"):
                if path.name != name:
                    path.unlink(missing_ok=True)
            make_room(self.directory, self.most_bytes)
        return self.directory / name


def touch(export: Path) -> None:
    """Mark it as used, without changing its identity. Raises OSError."""
    os.utime(export, ns=(time.time_ns(), export.stat().st_mtime_ns))


def _export(report: Path, identity: bytes) -> str:
    return f"{cache_name(report)}-{identity.hex()[:32]}"


def _checksum(path: Path) -> int:
    with path.open("rb") as file:
        return checksum_of_rest(file)
