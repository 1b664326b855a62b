"""Journals: append-only lines of JSON, the first naming the columns of all others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

SCHEMA = 1


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
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if not reader.columns:
            os.write(self._file, msgspec.json.encode(Header(self.columns)) + b"\n")

    def append(self, rows: Sequence[Sequence[Any]]) -> None:
        """Append ``rows``, each as long as the columns."""
        if rows:
            lines = b"\n".join(msgspec.json.encode(row) for row in rows) + b"\n"
            while lines:
                lines = lines[os.write(self._file, lines) :]

    def close(self) -> None:
        """Close the file; appending afterwards is an error."""
        os.close(self._file)


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
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        self._offset += end
        lines = data[:end].split(b"\n")[:-1]
        if lines and not self.columns:
            lines = self._read_header(lines)
        return [row for line in lines if (row := self._decode(line)) is not None]

    def _read_header(self, lines: list[bytes]) -> list[bytes]:
        try:
            self.columns = msgspec.json.decode(lines[0], type=Header).columns
        except msgspec.MsgspecError:
            self.skipped += 1
        return lines[1:]

    def _decode(self, line: bytes) -> list[Any] | None:
        try:
            row = self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.skipped += 1
            return None
        if len(row) != len(self.columns):
            self.skipped += 1
            return None
        return row
