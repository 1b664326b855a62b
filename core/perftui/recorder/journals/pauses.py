"""Pauses of the garbage collector as rows of the event journal, however many there are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perftui.recorder.spool.ring import Record

ONE_BY_ONE = 1000
"""Pauses that get a row each; of a long run only sums are asked for."""

SHARED_ROW_NS = 300_000_000_000
"""Later ones share a row for each generation and five minutes: 1 MB in a week at most."""


class Pauses:
    """Turns records of pauses into rows; the sum of their durations is exact.

    A row that stands for several begins when the first of them did, and holds their ``count``.
    """

    def __init__(self) -> None:
        self._written = 0
        self._shared: dict[int, list[Any]] = {}

    def rows(self, records: Iterable[Record]) -> list[list[Any]]:
        """The rows that ``records`` complete; those of other kinds are passed over."""
        done = []
        for record in records:
            if record.kind != "gc":
                continue
            data = {"generation": record.value}
            row = [record.start, "gc", record.duration, record.step, data]
            if self._written < ONE_BY_ONE:
                self._written += 1
                done.append(row)
            else:
                done += self._add(record, row)
        return done

    def rest(self) -> list[list[Any]]:
        """What still waits for others to share its row."""
        done, self._shared = list(self._shared.values()), {}
        return done

    def _add(self, record: Record, row: list[Any]) -> list[list[Any]]:
        shared = self._shared.get(record.value)
        if shared is not None and record.start - shared[0] < SHARED_ROW_NS:
            shared[2] += record.duration
            shared[4]["count"] += 1
            return []
        row[4]["count"] = 1
        self._shared[record.value] = row
        return [] if shared is None else [shared]
