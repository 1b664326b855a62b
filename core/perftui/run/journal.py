"""Journals: append-only lines of JSON, the first naming the columns of all others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

SCHEMA = 1

_DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding a damaged line may raise."""


@dataclass(frozen=True)
class Column:
    """One column of a journal. ``unit`` is ``"ns"``, ``"B"``, ``"B/s"``, ``"%"``, ``"count"``..."""

    name: str
    unit: str = ""
    label: str = ""
    """How a person calls it."""
    source: str = ""
    """Where the value comes from, for the help of the metric."""


class Header(msgspec.Struct, frozen=True):
    """The first line of a journal."""

    columns: tuple[Column, ...]
    schema: int = SCHEMA


class JournalWriter:
    """Appends rows to a journal, one ``write`` for each batch, never rewriting a byte.

    Opening a journal that exists appends to it, provided its columns are the same.

    Raises:
        ValueError: the journal exists with other columns.
        OSError: the file cannot be opened or written.
    """

    def __init__(self, path: Path, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        reader = JournalReader(path)
        reader.poll()
        if reader.columns and reader.columns != self.columns:
            raise ValueError(f"{path} exists with other columns")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._torn = _is_torn(self._file)
        if not reader.columns:
            self._write(msgspec.json.encode(Header(self.columns)) + b"\n")

    def append(self, rows: Sequence[Sequence[Any]]) -> None:
        """Append ``rows``, each as long as the columns.

        Raises:
            OSError: they could not be written, or not all; a line that was torn is closed by the
                next append, so that only the rows of this one are lost.
        """
        if rows:
            self._write(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))

    def _write(self, lines: bytes) -> None:
        if self._torn:
            lines = b"\n" + lines
        while lines:
            self._torn = True
            lines = lines[os.write(self._file, lines) :]
        self._torn = False

    def close(self) -> None:
        """Close the file; appending afterwards is an error."""
        os.close(self._file)


def _is_torn(file: int) -> bool:
    """Whether the last line has no end, because its writer died or the disk was full."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


class JournalReader:
    """Tails a journal: each ``poll`` returns the rows added since the last one.

    A torn last line is left for the next poll; a damaged line in the middle is skipped and
    counted in ``skipped``. A file that does not exist yet is an empty journal.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: tuple[Column, ...] = ()
        self.skipped = 0
        self._offset = 0
        self._decoder = msgspec.json.Decoder(list[Any])

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, empty until the first line has been read."""
        return tuple(column.name for column in self.columns)

    def poll(self, limit: int = 16 * 1024 * 1024) -> list[list[Any]]:
        """Rows added since the last poll, reading at most ``limit`` bytes."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(limit)
                # A line longer than the limit is read to its end, or nothing would ever be read.
                while len(data) >= limit and b"\n" not in data and (more := file.read(limit)):
                    data += more
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        self._offset += end
        lines = [line for line in data[:end].split(b"\n") if line]
        while lines and not self.columns:
            lines = self._read_header(lines)
        return [row for line in lines if (row := self._decode(line)) is not None]

    def _read_header(self, lines: list[bytes]) -> list[bytes]:
        try:
            self.columns = msgspec.json.decode(lines[0], type=Header).columns
        except _DAMAGE:
            self.skipped += 1
        return lines[1:]

    def _decode(self, line: bytes) -> list[Any] | None:
        try:
            row = self._decoder.decode(line)
        except _DAMAGE:
            self.skipped += 1
            return None
        if len(row) != len(self.columns):
            self.skipped += 1
            return None
        return row
