"""Arguments of single events, read from the file again on demand.

Nothing is kept per event: a table with one entry per chunk of text finds the chunk, which is
decoded again. Decoders are imported only then: a cached trace is opened without them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from perftui.trace.kineto.source import Source
from perftui.trace.model import Int32, Int64, LoadCancelled, Trace, TraceError

_AT_ONCE = 8 * 1024 * 1024
"""Bytes of text that are read at once for many rows: compressed text is inflated from the last
checkpoint, 16 MiB back at most."""

_FIRST = attrgetter("first")


class Chunk(NamedTuple):
    """Text of the file with ``rows`` rows, from ``first`` (in file order) on."""

    first: int
    rows: int
    offset: int
    length: int
    strict: bool


@dataclass(frozen=True, eq=False)
class ArgumentReader:
    """Reads the arguments of a row. Raises TraceError if the file is gone or has changed."""

    source: Source
    chunks: tuple[Chunk, ...]
    sequence: Int32
    """Number in the file of each row of the trace."""

    def __call__(self, row: int) -> Mapping[str, Any]:
        """The ``args`` of the event in one row of the trace."""
        _, arguments = next(self.many(np.array([row], dtype=np.int64)))
        return arguments

    def many(self, rows: Int64) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Each of ``rows`` with its ``args``, in the order of the file, which is read once."""
        from perftui.trace.kineto.read_events import arguments_in

        order = np.argsort(self.sequence[rows], kind="stable")
        rows, sequences = rows[order], self.sequence[rows][order]
        begin, text, offset = 0, b"", 0
        while begin < len(rows):
            chunk = self._chunk(int(sequences[begin]))
            stop = int(np.searchsorted(sequences, chunk.first + chunk.rows))
            if not offset <= chunk.offset <= offset + len(text) - chunk.length:
                offset = chunk.offset
                text = self.source.read_at(offset, self._piece(chunk, sequences[begin:]))
            at = chunk.offset - offset
            numbers = (sequences[begin:stop] - chunk.first).tolist()
            count, values = arguments_in(text[at : at + chunk.length], chunk.strict, numbers)
            self._check(chunk, count)
            for row, arguments in zip(rows[begin:stop].tolist(), values, strict=True):
                yield row, arguments if isinstance(arguments, dict) else {}
            begin = stop

    def _chunk(self, sequence: int) -> Chunk:
        """The chunk of row number ``sequence`` in the file."""
        return self.chunks[bisect_right(self.chunks, sequence, key=_FIRST) - 1]

    def _piece(self, chunk: Chunk, sequences: Int32) -> int:
        """Bytes to read from ``chunk`` on: to the end of the last of the rows ``sequences`` within
        reach."""
        length = chunk.length
        number = bisect_right(self.chunks, chunk.first, key=_FIRST)
        for after in self.chunks[number:]:
            end = after.offset + after.length - chunk.offset
            if end > _AT_ONCE:
                break
            place = int(np.searchsorted(sequences, after.first))
            if place < len(sequences) and int(sequences[place]) < after.first + after.rows:
                length = end
        return length

    def first_offset(self, rows: Int64) -> int:
        """Offset in the (inflated) file of the first event among these rows."""
        from perftui.trace.kineto.damaged_text import recover
        from perftui.trace.kineto.read_events import is_row

        sequence = int(self.sequence[rows].min())
        chunk = self._chunk(sequence)
        recovered = recover(self.source.read_at(chunk.offset, chunk.length), last=True)
        events = zip(recovered.objects, recovered.starts, strict=True)
        starts = [start for fields, start in events if is_row(fields.get("ph"), fields.get("cat"))]
        self._check(chunk, len(starts))
        return chunk.offset + starts[sequence - chunk.first]

    def _check(self, chunk: Chunk, rows: int) -> None:
        if rows != chunk.rows:
            raise TraceError(f"{self.source.path} has changed since it was opened: open it again")


MOST_SINGLE = 2_000
"""Most rows that are read one by one: 1 ms each."""


Rows = Iterator[tuple[int, Mapping[str, Any]]]


def arguments_of(
    trace: Trace, rows: Int64, progress: Callable[[float], bool] | None = None
) -> Rows:
    """Each of ``rows`` with its arguments, in no particular order.

    It takes 5 us a row, and as much for each of their neighbours in the file. ``progress`` is
    called with the share read so far, and returns whether to go on.

    Raises:
        TraceError: the format needs one look into the file per row, and these are more than
            ``MOST_SINGLE``; or while reading, as reading a single row does.
        LoadCancelled: while reading, if ``progress`` returned False.
    """
    reader = trace.read_arguments
    if isinstance(reader, ArgumentReader):
        pairs = reader.many(rows)
    elif len(rows) > MOST_SINGLE:
        raise TraceError(
            f"too many rows to read one by one: {len(rows):,}, more than {MOST_SINGLE:,}"
        )
    else:
        pairs = ((row, reader(row)) for row in rows.tolist())

    def watched(read: Callable[[float], bool]) -> Rows:
        for done, pair in enumerate(pairs):
            if done % 4096 == 0 and not read(done / len(rows)):
                raise LoadCancelled
            yield pair

    return pairs if progress is None else watched(progress)
