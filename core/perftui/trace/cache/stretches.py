"""Where the text of each row is, as columns, and a reader of arguments made from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perftui.trace.kineto.source import Source
from perftui.trace.model import Int32, Int64

if TYPE_CHECKING:
    from perftui.trace.kineto.arguments import ArgumentReader, Stretch, StretchTable


@dataclass(frozen=True, eq=False)
class StoredArguments:
    """An ``ArgumentReader`` but for its source; all but ``sequence`` have an entry a stretch."""

    sequence: Int32
    first: Int64
    rows: Int64
    offset: Int64
    length: Int64
    strict: npt.NDArray[np.bool_]

    def of(self, sequence: int) -> Stretch:
        """The stretch of the row that came as number ``sequence`` in the file."""
        from perftui.trace.kineto.arguments import Stretch

        index = int(np.searchsorted(self.first, sequence, side="right")) - 1
        return Stretch(
            first=int(self.first[index]),
            rows=int(self.rows[index]),
            offset=int(self.offset[index]),
            length=int(self.length[index]),
            strict=bool(self.strict[index]),
        )


@dataclass(frozen=True, eq=False)
class StoredReader:
    """The arguments of a row, read from the file again; raises TraceError as ``ArgumentReader``
    does, which is imported when the first are asked for: it takes all that decodes with it."""

    source: Source
    stored: StoredArguments

    def __call__(self, row: int) -> Mapping[str, Any]:
        """The ``args`` of the event in one row of the trace."""
        return self._reader()(row)

    def many(self, rows: Int64) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Each of ``rows`` with its ``args``, as ``ArgumentReader.many`` gives them."""
        return self._reader().many(rows)

    def _reader(self) -> ArgumentReader:
        from perftui.trace.kineto.arguments import ArgumentReader

        return ArgumentReader(self.source, self.stored, self.stored.sequence)


def stored_arguments(sequence: Int32, table: StretchTable) -> StoredArguments:
    """What is kept of the reader that a trace was loaded with."""
    every = table.stretches

    def column(name: str) -> Int64:
        return np.array([getattr(each, name) for each in every], dtype=np.int64)

    return StoredArguments(
        sequence=sequence,
        first=column("first"),
        rows=column("rows"),
        offset=column("offset"),
        length=column("length"),
        strict=np.array([each.strict for each in every], dtype=np.bool_),
    )
