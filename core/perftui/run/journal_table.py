"""A journal and the table it fills, of a size that does not grow with the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perftui.run.aggregates import NO_AGGREGATES, Aggregates, aggregates_of
from perftui.run.journal import Column
from perftui.run.segments import SegmentReader
from perftui.run.table import GrowingTable, Table


@dataclass(frozen=True)
class Kept:
    """How many rows stay as they are: the first, and from ``newest`` to twice as many newest."""

    first: int
    newest: int


KEPT_STEPS = Kept(4096, 32768)
"""The first hold the warm-up. At 170 bytes each a rank takes 12 MB at most, and is judged anew in
some 40 ms; a run of fewer steps than both together is judged from every one of them."""

KEPT_SAMPLES = Kept(512, 7680)
"""Over an hour of newest samples, two a second: 13 MB at most for 100 columns."""


class JournalTable:
    """Follows the journal at ``path``. Without ``kept`` all its rows stay as they are.

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
        """Lines that were left out: damaged ones and those that do not fit their columns."""
        return self._journal.skipped + (self._table.refused if self._table else 0)

    @property
    def sums(self) -> Aggregates:
        """Sums of the rows that are not in the table."""
        return self._journal.sums.plus(self._sums)

    def poll(self) -> Table:
        """Everything up to the end of the journal: a run that is over is read only once.

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
    """The first row from ``at`` on that the row before it does not disturb; it may be the end."""
    if "profiled" not in rows:
        return at
    free = np.flatnonzero(rows["profiled"][at - 1 : -1] == 0)
    return at + int(free[0]) if len(free) else len(rows)
