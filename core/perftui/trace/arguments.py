"""The arguments of many rows, read in one pass where the format lets them be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from perftui.trace.errors import TraceError
from perftui.trace.model import Int64, Trace

MOST_SINGLE = 2_000
"""Rows that are read where each takes a look into the file: 1 ms."""


class TooManyRowsError(TraceError):
    """The arguments are in the file, but to look for each would take too long."""


@runtime_checkable
class _ReadsMany(Protocol):
    def many(self, rows: Int64) -> Iterator[tuple[int, Mapping[str, Any]]]: ...


def arguments_of(trace: Trace, rows: Int64) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Each of ``rows`` with its arguments, in no order that means anything.

    It takes 5 us a row, and as much for each of their neighbours in the file.

    Raises:
        TooManyRowsError: the format takes a look into the file for each, and these are more than
            ``MOST_SINGLE``.
        TraceError: while reading, as reading a single row does.
    """
    reader: object = trace.read_arguments
    if isinstance(reader, _ReadsMany):
        return reader.many(rows)
    if len(rows) > MOST_SINGLE:
        raise TooManyRowsError(
            f"too many rows to read one by one: {len(rows):,}, more than {MOST_SINGLE:,}"
        )
    return ((row, trace.read_arguments(row)) for row in rows.tolist())
