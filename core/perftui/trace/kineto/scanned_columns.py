"""Appends what the compiled scanner read to the columns, with their numbers for its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perftui.trace.kineto.columns import Columns
from perftui.trace.kineto.scanner import Scanned, Values
from perftui.trace.kineto.tracks import Side
from perftui.trace.model import Int32, Ints


class ScannedColumns:
    """The columns' numbers of names, categories and tracks, by those of the scanner."""

    def __init__(self, columns: Columns, values: Values) -> None:
        self._columns = columns
        names, categories, self._ids = values
        self._names = _Translation(lambda n: columns.names[names[n]])
        self._categories = _Translation(lambda n: columns.categories[categories[n], ""])
        self._tracks = _Translation(self._track_number)
        self._threads = _Translation(lambda n: columns.thread(*self._ids[n]))

    def _track_number(self, number: int) -> int:
        ids, side = divmod(number, len(Side))
        process, thread = self._ids[ids]
        return self._columns.tracks.index[process, thread, side]

    def add(self, scanned: Scanned) -> int:
        """Append the rows; how many there are."""
        for event in scanned.metadata:
            self._columns.tracks.name(event)
        self._columns.events += scanned.events
        self._columns.complete_events += scanned.complete
        memory = scanned.memory
        if len(memory["track"]):
            track = self._threads.of(memory["track"]).astype(np.int64)
            self._columns.add_memory({**memory, "track": track})
        columns = scanned.columns
        if not len(columns["start"]):
            return 0
        category = self._categories.of(columns["category"])
        sides = self._columns.sides(category)
        numbers = {
            "name": self._names.of(columns["name"]),
            "category": category,
            "track": self._tracks.of(columns["track"] * len(Side) + sides),
        }
        self._columns.append({**columns, **numbers}, sides, scanned.event_at)
        return len(category)


class _Translation:
    """An array that is filled as numbers are met, in their order of appearance."""

    def __init__(self, number_of: Callable[[int], int]) -> None:
        self._number_of = number_of
        self._known = np.full(64, -1, dtype=np.int32)

    def of(self, numbers: Ints) -> Int32:
        """The columns' numbers."""
        largest = int(numbers.max())
        if largest >= len(self._known):
            longer = np.full(2 * largest + 1, -1, dtype=np.int32)
            longer[: len(self._known)] = self._known
            self._known = longer
        found = self._known[numbers]
        new = numbers[found < 0]
        if len(new):
            for number in dict.fromkeys(new.tolist()):
                self._known[number] = self._number_of(number)
            found = self._known[numbers]
        return found
