"""A journal in segments and its table, whose size does not grow with the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from perftui.run.files import NewerError, UnreadableError, decode_versioned, read_regular
from perftui.run.journal import Column, JournalReader
from perftui.run.table import Aggregates, GrowingTable, Table, aggregates_of

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
    """Follows the journal at ``path`` through its segments. Without ``kept`` all rows are kept that
    are in one of them.

    ``expected`` are the columns while there is no journal yet."""

    def __init__(
        self,
        path: Path,
        expected: Sequence[Column],
        *,
        floats: bool = False,
        kept: Kept | None = None,
    ) -> None:
        self._segments = Segments(path)
        self._empty = GrowingTable(expected, floats).freeze()
        self._floats = floats
        self._kept = kept
        self._stamp: tuple[int, int] | None = None
        self._removed = Downsampled()
        """The segments that were summed before they were read."""
        self._begin()

    @property
    def skipped(self) -> int:
        """Number of skipped lines: damaged ones and those that do not fit their columns."""
        refused = 0 if self._table is None else self._table.refused
        return self._skipped + self._journal.skipped + refused

    def poll(self) -> Table:
        """All rows up to the end of the journal, with the sums of those that are not kept: one call
        reads all of a run that is over.

        Raises:
            NewerError: a file has a schema that this version does not know.
            OSError: a file is there and cannot be read.
        """
        while self._read_on():
            pass
        table = self._empty if self._table is None else self._table.freeze()
        return replace(table, sums=self._removed.sums.plus(self._sums))

    def _begin(self) -> None:
        self._number = self._skipped = self._first = 0
        self._journal = JournalReader(self._segments.path(0))
        self._table: GrowingTable | None = None
        self._sums = Aggregates()

    def _read_on(self) -> bool:
        """Take the next rows, sometimes none; whether there may be more."""
        self._notice_downsampling()
        # Segments after the first may have been summed.
        following = max(self._number, self._removed.segments) + 1
        # Asked before reading: a segment that has a successor no longer grows.
        is_complete = self._segments.path(following).exists()
        before = self._journal.position
        rows = self._journal.poll(CHUNK)
        if self._table is None and self._journal.columns:
            self._table = GrowingTable(self._journal.columns, self._floats)
        if self._table is not None:
            self._take(self._table, rows)
        if self._journal.position != before:
            return True
        if is_complete:
            self._skipped += self._journal.skipped
            self._number = following
            self._journal = JournalReader(self._segments.path(following))
        return is_complete

    def _notice_downsampling(self) -> None:
        """Begin anew if segments were summed before they were read to their end."""
        sums = self._segments.sums
        try:
            status = sums.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp == self._stamp:
                return
            removed = decode_versioned(read_regular(sums), Downsampled, SCHEMA, "sums")
        except FileNotFoundError:
            return
        except NewerError as error:
            raise NewerError(f"{sums}: {error}") from error
        except UnreadableError:
            self._skipped += 1
            removed = Downsampled(segments=self._segments.lowest() - 1)
        self._stamp = stamp
        if self._number and removed.segments < self._number:
            return
        if self._number:
            self._begin()
        self._removed = removed

    def _take(self, table: GrowingTable, rows: list[list[Any]]) -> None:
        """Append ``rows``; of very many, sum those between the first and the newest."""
        table.extend(rows)
        kept = self._kept
        if kept is None or len(table) <= kept.first + 2 * kept.newest:
            return
        frozen = table.freeze()
        first = self._first or _undisturbed(frozen, kept.first)
        end = _undisturbed(frozen, len(frozen) - kept.newest)
        if first < end < len(frozen):
            self._first = first
            self._sums = self._sums.plus(aggregates_of(table.remove(first, end)))


def _undisturbed(rows: Table, at: int) -> int:
    """The first row from ``at`` on after an undisturbed row; may be the end."""
    if "profiled" not in rows:
        return at
    free = np.flatnonzero(rows["profiled"][at - 1 : -1] == 0)
    return at + int(free[0]) if len(free) else len(rows)
