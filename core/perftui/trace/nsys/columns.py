"""Columns of an export while it is being read, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.kineto.times import LIMIT
from perftui.trace.kineto.tracks import Numbering
from perftui.trace.model import NONE, Int32, Int64
from perftui.trace.nsys.database import Database
from perftui.trace.nsys.names import Label
from perftui.trace.nsys.scan import Rows
from perftui.trace.nsys.tracks import TrackTable

ENDLESS = -(2**62)
"""End of a row that has none."""

CONTEXT = 5
"""Where rows have the context that they ran in."""

DEVICE = 6
"""Where rows have device, stream and owner: see ``place``."""

OWNER = 8
"""Where rows have the global id of their process or thread."""

KEYS = 9
"""Where the columns begin that rows are named by."""


_USED = (OWNER, CONTEXT, DEVICE)


def place(
    database: Database, table: str, owner: str, on_device: bool, device: str = ""
) -> tuple[str, ...]:
    """SQL of what is read of every row, next to its id and before what names it.

    ``device`` is SQL of the device, where that is not simply a column of the table.
    """

    def column(name: str) -> str:
        return database.column(table, name)

    return (
        column("start"),
        f'ifnull(cast("end" as integer), {ENDLESS})',
        column("correlationId"),
        column("bytes"),
        column("contextId") if on_device else str(NONE),
        f"max({device or column('deviceId')}, 0)" if on_device else str(NONE),
        column("streamId") if on_device else str(NONE),
        column(owner),
    )


@dataclass
class Part:
    """Rows of one batch."""

    start: Int64
    duration: Int64
    name: Int32
    category: Int32
    track: Int32
    correlation: Int64
    bytes: Int64
    table: Int32
    row_id: Int64


@dataclass
class Columns:
    """What has been read so far."""

    tracks: TrackTable
    parts: list[Part] = field(default_factory=list)
    names: Numbering = field(default_factory=Numbering)
    categories: Numbering = field(default_factory=Numbering)
    tables: Numbering = field(default_factory=Numbering)
    processes: Numbering = field(default_factory=Numbering)
    contexts: dict[tuple[int, int], int] = field(default_factory=dict)
    """Device of each context, by the global id of its process and its own id."""
    endless: int = 0
    """Rows left out because they never end."""
    negative: int = 0
    """Rows that end before they start, and count as lasting 0."""
    untimed: int = 0
    """Rows left out because they start or end where no time can be."""

    @property
    def rows(self) -> int:
        """How many have become events."""
        return sum(len(part.start) for part in self.parts)

    def so_far(self) -> Columns:
        """A copy of the rows, which can be used up while more are added here."""
        return replace(self, parts=[replace(part) for part in self.parts])

    def span(self) -> tuple[int, int]:
        """First start and last end of all rows; empty where there are none."""
        starts = [int(part.start.min()) for part in self.parts]
        ends = [int((part.start + part.duration).max()) for part in self.parts]
        return min(starts, default=0), max(ends, default=0)

    def add(self, table: str, rows: Rows, label: Callable[..., Label]) -> int:
        """Append a batch of rows (id, ``place``, keys); ``label`` names one by its keys.

        Returns how many became events.
        """
        if not rows:
            return 0
        columns = list(zip(*rows, strict=True))
        numbers = [np.array(column, dtype=np.int64) for column in columns[:KEYS]]
        row_id, start, end, correlation, size, _, device, _, owner = numbers
        if device[0] != NONE:
            for who, context, on in set(zip(*(columns[i] for i in _USED), strict=True)):
                if context != NONE:
                    self.contexts.setdefault((who, context), on)
        named = [label(*keys) for keys in zip(*columns[KEYS:], strict=True)]
        part = Part(
            start=start,
            duration=np.maximum(end - start, 0),
            name=_numbers(self.names, [each.name for each in named]),
            category=_numbers(self.categories, [each.category for each in named]),
            track=_numbers(self.tracks, zip(*columns[DEVICE:KEYS], strict=True)),
            correlation=self._correlation(correlation, owner),
            bytes=size,
            table=np.full(len(rows), self.tables[table], dtype=np.int32),
            row_id=row_id,
        )
        return self._keep(part, end)

    def _keep(self, part: Part, end: Int64) -> int:
        # Exports of old wrote 0 for the end of what never ended, where new ones have NULL.
        finished = (end > 0) | ((part.start <= 0) & (end != ENDLESS))
        timed = _possible(part.start) & (_possible(end) | ~finished)
        kept = finished & timed
        self.endless += int(np.count_nonzero(timed & ~finished))
        self.untimed += int(np.count_nonzero(~timed))
        self.negative += int(np.count_nonzero(kept & (end < part.start)))
        if not kept.all():
            part = Part(**{name: column[kept] for name, column in vars(part).items()})
        if len(part.start):
            self.parts.append(part)
        return len(part.start)

    def joined(self, name: str) -> Any:
        """One column whole; its parts are let go, so that no more than one column exists twice."""
        joined = np.concatenate([getattr(part, name) for part in self.parts])
        for part in self.parts:
            # Not a part of ``joined``: a view keeps the whole array.
            setattr(part, name, np.empty(0, dtype=joined.dtype))
        return joined

    def _correlation(self, correlation: Int64, owner: Int64) -> Int64:
        """Ids are counted by each process: those of the second and later ones are moved apart."""
        found, inverse = np.unique(owner >> 24, return_inverse=True)
        number = np.array([self.processes[each] for each in found.tolist()], dtype=np.int64)
        return np.where(correlation > 0, correlation + (number[inverse] << 32), NONE)


def _possible(times: Int64) -> npt.NDArray[np.bool_]:
    return (times > -LIMIT) & (times < LIMIT)


def _numbers(table: dict[Any, int], keys: Iterable[Any]) -> Int32:
    return np.fromiter(map(table.__getitem__, keys), np.int32)
