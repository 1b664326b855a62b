"""The rows of one table as a stream of batches, around pages that cannot be read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

BATCH = 8192
"""Rows fetched at a time: they take about 2 MiB while they are Python objects."""

Rows = list[tuple[Any, ...]]


@dataclass
class Scan:
    """Reads ``columns`` (SQL expressions) of a table; the row's id is put before them.

    Rows come in order of their ids. Where a page is damaged those before it are read, then those
    behind it from the last backwards, and ``damage`` is SQLite's error.
    """

    connection: sqlite3.Connection
    table: str
    columns: Sequence[str]
    where: str = "1"
    damage: str | None = field(default=None, init=False)
    last: int = field(default=0, init=False)
    """Largest id given out so far."""

    def batches(self) -> Iterator[Rows]:
        """All rows that can be read."""
        yield from self._read("asc", None)
        if self.damage:
            yield from self._read("desc", self.last)

    def _read(
        self, direction: str, above: int | None, size: int = BATCH, reached: int | None = None
    ) -> Iterator[Rows]:
        try:
            cursor = self.connection.execute(*self._query(direction, reached, above))
            while rows := cursor.fetchmany(size):
                reached = rows[-1][0]
                self.last = max(self.last, rows[0][0], rows[-1][0])
                yield rows
        except sqlite3.DatabaseError as error:
            self.damage = str(error)
            if size > 1:
                # A fetch that fails gives none of its rows, though most may be readable.
                yield from self._read(direction, above, 1, reached)

    def _query(
        self, direction: str, reached: int | None, above: int | None
    ) -> tuple[str, list[int]]:
        limits, values = [f"({self.where})"], []
        if reached is not None:
            limits.append("rowid > ?" if direction == "asc" else "rowid < ?")
            values.append(reached)
        if above is not None:
            limits.append("rowid > ?")
            values.append(above)
        # The parts are names of this package, and columns that the file was seen to have.
        sql = (
            f"select rowid, {', '.join(self.columns)} from {self.table} "  # noqa: S608 - see above
            f"where {' and '.join(limits)} order by rowid {direction}"
        )
        return sql, values
