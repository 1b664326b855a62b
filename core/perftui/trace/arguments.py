"""The arguments of many rows, read in one pass where the format lets them be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from perftui.trace.errors import LoadCancelled, TraceError
from perftui.trace.kineto.arguments import ArgumentReader
from perftui.trace.model import Int64, Trace

MOST_SINGLE = 2_000
"""Rows that are read where each takes a look into the file: 1 ms."""

_PROGRESS_EVERY = 4096

Rows = Iterator[tuple[int, Mapping[str, Any]]]


class TooManyRowsError(TraceError):
    """The arguments are in the file, but to look for each would take too long."""


def arguments_of(
    trace: Trace, rows: Int64, progress: Callable[[float], bool] | None = None
) -> Rows:
    """Each of ``rows`` with its arguments, in no order that means anything.

    It takes 5 us a row, and as much for each of their neighbours in the file. ``progress`` is
    called with the share read so far, and returns whether to go on.

    Raises:
        TooManyRowsError: the format takes a look into the file for each, and these are more than
            ``MOST_SINGLE``.
        TraceError: while reading, as reading a single row does.
        LoadCancelled: while reading, where ``progress`` returned False.
    """
    reader = trace.read_arguments
    if isinstance(reader, ArgumentReader):
        found = reader.many(rows)
    elif len(rows) > MOST_SINGLE:
        raise TooManyRowsError(
            f"too many rows to read one by one: {len(rows):,}, more than {MOST_SINGLE:,}"
        )
    else:
        found = ((row, reader(row)) for row in rows.tolist())
    return found if progress is None else _with_progress(found, len(rows), progress)


def _with_progress(found: Rows, rows: int, progress: Callable[[float], bool]) -> Rows:
    for done, each in enumerate(found):
        if done % _PROGRESS_EVERY == 0 and not progress(done / rows):
            raise LoadCancelled
        yield each
