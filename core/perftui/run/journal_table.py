"""A journal in segments and its table, whose size does not grow with the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from perftui.run.aggregates import NO_AGGREGATES, Aggregates, aggregates_of
from perftui.run.files import NewerError, UnreadableError, decode_versioned, read_regular
from perftui.run.journal import Column, JournalReader
from perftui.run.table import GrowingTable, Table

# ``steps.jsonl`` is the first segment and stays. Once it is long enough, rows continue in
# ``steps.more/1.jsonl``, then ``2.jsonl`` and so on. Older segments between are removed once their
# sums are in ``steps.more/sums.json``.

SCHEMA = 1

CHUNK = 1024 * 1024
"""Bytes read at a time: their rows as Python objects take some 15 times that."""


@dataclass(frozen=True)
class Segments:
    """Names of the segments of the journal at ``first``."""

    first: Path

    @property
    def root(self) -> Path:
        """Directory of all segments but the first."""
        return self.first.with_suffix(".more")

    @property
    def sums(self) -> Path:
        """File with the sums of removed segments."""
        return self.root / "sums.json"

    def path(self, number: int) -> Path:
        """Segment ``number``, from 0 on."""
        return self.root / f"{number}.jsonl" if number else self.first

    def lowest(self) -> int:
        """The first existing segment after number 0, else 1, the next to be written."""
        numbers = [int(path.stem) for path in self.root.glob("*.jsonl") if path.stem.isdecimal()]
        return min(numbers, default=1)


class Downsampled(msgspec.Struct, frozen=True, rename={"segments": "pieces"}):
    """The sums over the segments from 1 to ``segments``."""

    segments: int = 0
    sums: Aggregates = Aggregates()
    schema: int = SCHEMA


class SegmentReader:
    """Tails a journal in segments. ``restarts`` grows when all rows returned before become void.

    That happens if segments were summed before they were read: rows then start over.
    """

    def __init__(self, path: Path) -> None:
        self.restarts = 0
        self.sums = Aggregates()
        """Sums of the segments that were removed before they were read."""
        self._segments = Segments(path)
        self._stamp: tuple[int, int] | None = None
        self._skipped = 0
        self._begin()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, empty until the first line has been read."""
        return self._columns or self._journal.columns

    @property
    def skipped(self) -> int:
        """Number of skipped lines."""
        return self._skipped + self._journal.skipped

    def poll(self) -> list[list[Any]] | None:
        """Next rows, sometimes none; None once there are no more.

        Raises:
            NewerError: a file has a schema that this version does not know.
            OSError: a file is there and cannot be read.
        """
        self._notice_downsampling()
        follows = self._segments.path(self._number + 1 if self._number else self._n_summed + 1)
        # Asked before reading: a segment that has a successor no longer grows.
        is_complete = follows.exists()
        before = self._journal.position
        rows = self._journal.poll(CHUNK)
        if self._journal.position != before:
            return rows
        return self._go_on() if is_complete else None

    def _begin(self) -> None:
        self._number = self._n_summed = 0
        self._columns: tuple[Column, ...] = ()
        self._journal = JournalReader(self._segments.path(0))

    def _go_on(self) -> list[list[Any]]:
        self._columns = self.columns
        self._skipped += self._journal.skipped
        self._number = self._number + 1 if self._number else self._n_summed + 1
        self._journal = JournalReader(self._segments.path(self._number))
        return []

    def _notice_downsampling(self) -> None:
        sums = self._segments.sums
        try:
            status = sums.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp == self._stamp:
                return
            downsampled = decode_versioned(read_regular(sums), Downsampled, SCHEMA, "sums")
        except FileNotFoundError:
            return
        except NewerError as error:
            raise NewerError(f"{sums}: {error}") from error
        except UnreadableError:
            self._skipped += 1
            downsampled = Downsampled(segments=self._segments.lowest() - 1)
        self._stamp = stamp
        if self._number and downsampled.segments < self._number:
            return
        if self._number:
            self._skipped = 0
            self.restarts += 1
            self._begin()
        self._n_summed, self.sums = downsampled.segments, downsampled.sums


@dataclass(frozen=True)
class Kept:
    """How many rows are kept: the first, and from ``newest`` to twice as many newest."""

    first: int
    newest: int


KEPT_STEPS = Kept(4096, 32768)
"""The first include the warm-up. At 170 bytes each a rank takes 12 MB at most, and is judged anew
in some 40 ms; a run with fewer steps than both is judged by all of them."""

KEPT_SAMPLES = Kept(512, 7680)
"""Over an hour of newest samples, two a second: 13 MB at most for 100 columns."""

KEPT_STACKS = Kept(4096, 32768)
"""Over an hour of newest stacks at ten a second."""


class JournalTable:
    """Follows the journal at ``path``. Without ``kept`` all its rows are kept.

    ``expected`` are the columns while there is no journal yet.
    """

    def __init__(
        self,
        path: Path,
        expected: Sequence[Column],
        *,
        floats: bool = False,
        text: frozenset[str] = frozenset(),
        kept: Kept | None = None,
    ) -> None:
        self._journal = SegmentReader(path)
        self._empty = GrowingTable(expected, floats, text).freeze()
        self._floats = floats
        self._text = text
        self._kept = kept
        self._begin()

    @property
    def skipped(self) -> int:
        """Number of skipped lines: damaged ones and those that do not fit their columns."""
        return self._journal.skipped + (self._table.refused if self._table else 0)

    @property
    def sums(self) -> Aggregates:
        """Sums of the rows that are not in the table."""
        return self._journal.sums.plus(self._sums)

    def poll(self) -> Table:
        """All rows up to the end of the journal: one call reads all of a run that is over.

        Raises:
            NewerError: it was written by a newer version.
            OSError: a file is there and cannot be read.
        """
        while (rows := self._journal.poll()) is not None:
            if self._journal.restarts != self._restarts:
                self._begin()
            self._take(rows)
        return self._empty if self._table is None else self._table.freeze()

    def _begin(self) -> None:
        self._restarts = self._journal.restarts
        self._table: GrowingTable | None = None
        self._sums = NO_AGGREGATES
        self._first = 0

    def _take(self, rows: list[list[Any]]) -> None:
        if self._table is None:
            if not self._journal.columns:
                return
            self._table = GrowingTable(self._journal.columns, self._floats, self._text)
        self._table.extend(rows)
        if self._kept and len(self._table) > self._kept.first + 2 * self._kept.newest:
            self._downsample(self._table, self._kept)

    def _downsample(self, table: GrowingTable, kept: Kept) -> None:
        """Sum the rows between the first and the newest."""
        rows = table.freeze()
        first = self._first or _undisturbed(rows, kept.first)
        end = _undisturbed(rows, len(rows) - kept.newest)
        if first < end < len(rows):
            self._first = first
            self._sums = self._sums.plus(aggregates_of(table.remove(first, end)))


def _undisturbed(rows: Table, at: int) -> int:
    """The first row from ``at`` on after an undisturbed row; may be the end."""
    if "profiled" not in rows:
        return at
    free = np.flatnonzero(rows["profiled"][at - 1 : -1] == 0)
    return at + int(free[0]) if len(free) else len(rows)
