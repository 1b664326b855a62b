"""Journals: append-only lines of JSON; the first line names the columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from perftui.run.files import DAMAGE, NewerError, UnreadableError, decode_versioned, open_regular

CHUNK = 16 * 1024 * 1024
"""Bytes read at a time: a reader that comes late catches up without holding the whole file."""

LONGEST_LINE = 64 * 1024 * 1024
"""Most bytes of a line; a longer one is damage, and keeping it would fill the reader's memory."""


class LineTail:
    """Each ``poll`` returns the lines of ``path`` that were finished since the last one.

    An unfinished last line waits for the next poll. A line of more than ``longest`` bytes is
    skipped and counted in ``skipped``. A file that does not exist yet has no lines."""

    def __init__(self, path: Path, longest: int = LONGEST_LINE) -> None:
        self.path = path
        self.skipped = 0
        self._longest = longest
        self.position = 0
        """Bytes of the file that were consumed."""
        self._is_skipping = False

    def poll(self, limit: int = CHUNK) -> list[bytes]:
        """Non-empty lines without their ends; reads ``limit`` bytes, or one line. Raises OSError if
        the file is there and cannot be read."""
        data = self._read(limit)
        end = data.rfind(b"\n") + 1
        if not end and len(data) > self._longest:
            self.skipped += not self._is_skipping
            self._is_skipping = True
            self.position += len(data)
            return []
        self.position += end
        lines = data[:end].split(b"\n")
        if end and self._is_skipping:
            # The first is the rest of the line that was too long.
            lines, self._is_skipping = lines[1:], False
        return [line for line in lines if line]

    def _read(self, limit: int) -> bytes:
        try:
            with open_regular(self.path) as file:
                file.seek(self.position)
                data = file.read(limit)
                # A line longer than the limit is read to its end, or there would be no progress.
                while b"\n" not in data and limit <= len(data) <= self._longest:
                    more = file.read(limit)
                    if not more:
                        break
                    data += more
        except FileNotFoundError:
            return b""
        return data


SCHEMA = 1


@dataclass(frozen=True)
class Column:
    """One column of a journal. ``unit`` is ``"ns"``, ``"B"``, ``"B/s"``, ``"%"``, ``"count"``..."""

    name: str
    unit: str = ""
    label: str = ""
    """Name for people."""
    source: str = ""
    """Source of the value, for the help of the metric."""
    meaning: str = ""
    """Meaning, in one sentence."""


class Header(msgspec.Struct, frozen=True):
    """The first line of a journal."""

    columns: tuple[Column, ...]
    schema: int = SCHEMA


class JournalWriter:
    """Appends rows to a journal, one ``write`` for each batch, never rewriting a byte.

    An existing journal is continued if its columns are the same. ``makes_directory`` creates its
    directory, as for a rank, but none above; a run's own is never created: a run directory that
    somebody has removed stays removed.

    Raises:
        ValueError: the journal exists with other columns.
        OSError: the file cannot be opened or written.
    """

    def __init__(
        self, path: Path, columns: Sequence[Column], *, makes_directory: bool = True
    ) -> None:
        self.columns = tuple(columns)
        if makes_directory:
            path.parent.mkdir(mode=0o700, exist_ok=True)
        reader = JournalReader(path)
        reader.poll()
        if reader.columns and reader.columns != self.columns:
            raise ValueError(f"{path} exists with other columns")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # The last line is unfinished where its writer died or the disk was full.
            self._torn = self.size > 0 and os.pread(self._file, 1, self.size - 1) != b"\n"
            if not reader.columns:
                self._write(msgspec.json.encode(Header(self.columns)) + b"\n")
        except BaseException:
            os.close(self._file)
            raise

    def append(self, rows: Sequence[Sequence[Any]]) -> None:
        """Append ``rows``, each as long as the columns.

        Raises:
            OSError: some could not be written; a torn line is ended by the next append, so that
                only rows of this one are lost.
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

    @property
    def size(self) -> int:
        """Bytes of the file. Raises OSError if the file system does not report it."""
        return os.fstat(self._file).st_size

    def close(self) -> None:
        """Close the file; appending afterwards is an error."""
        os.close(self._file)


class JournalReader:
    """Tails a journal: each ``poll`` returns the rows added since the last one.

    A torn last line is left for the next poll; a damaged line in the middle is skipped and counted
    in ``skipped``. A file that does not exist yet is an empty journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: tuple[Column, ...] = ()
        self._tail = LineTail(path)
        self._damaged = 0
        self._newer: NewerError | None = None
        self._decoder = msgspec.json.Decoder(list[Any])

    @property
    def skipped(self) -> int:
        """Number of skipped lines."""
        return self._damaged + self._tail.skipped

    @property
    def position(self) -> int:
        """Bytes of the file that were consumed; unchanged if nothing was added."""
        return self._tail.position

    def poll(self, limit: int = CHUNK) -> list[list[Any]]:
        """Rows added since the last poll, reading ``limit`` bytes, or one line if that is longer.

        Raises:
            NewerError: it has a schema that this version does not know.
            OSError: the file is there and cannot be read.
        """
        if self._newer is not None:
            raise self._newer
        lines = self._tail.poll(limit)
        while lines and not self.columns:
            try:
                self.columns = decode_versioned(lines[0], Header, SCHEMA, "a header").columns
            except NewerError as error:
                self._newer = NewerError(f"{self.path}: {error}")
                raise self._newer from error
            except UnreadableError:
                self._damaged += 1
            lines = lines[1:]
        return [row for line in lines if (row := self._decode(line)) is not None]

    def _decode(self, line: bytes) -> list[Any] | None:
        try:
            row = self._decoder.decode(line)
        except DAMAGE:
            self._damaged += 1
            return None
        if len(row) != len(self.columns):
            self._damaged += 1
            return None
        return row
