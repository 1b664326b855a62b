"""The parser of Kineto (Chrome) traces: reads a file into a ``Trace``."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perftui.trace.kineto.arguments import Chunk
from perftui.trace.kineto.assemble import arrange, assemble
from perftui.trace.kineto.columns import Columns, ScannedColumns
from perftui.trace.kineto.json_text import LIMIT, start_of_events, unproven_start
from perftui.trace.kineto.scanner import Batch, Batches, open_scanner
from perftui.trace.kineto.source import PIECE, Source
from perftui.trace.model import (
    FIRST_PREVIEW,
    PREVIEW_GROWTH,
    Cancelled,
    LoadCancelled,
    Preview,
    Progress,
    Trace,
    TraceError,
)

MOST_ROWS = 2**31 - 1
"""Rows of the columns that number them."""


def load_kineto(
    path: Path,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    preview: Preview | None = None,
) -> Trace:
    """Read a trace as torch.profiler exports it, plain or gzip whatever its name says.

    The parameters and errors are those of ``perftui.trace.formats.load_trace``.
    """
    source = Source(path)
    if not source.total:
        raise TraceError(f"{path} is empty: the profiler did not finish writing it; record again")
    with _collector_paused():
        pieces = _watched(source, progress, cancelled)
        head, first = read_head(path, pieces)
        scanner = open_scanner()
        batches = Batches(len(head), scanner)
        columns = Columns()
        chunks: list[Chunk] = []
        previewed = FIRST_PREVIEW // PREVIEW_GROWTH
        scanned = ScannedColumns(columns, scanner.values if scanner else ([], [], []))
        for batch in batches.decode(chained(first, pieces)):
            rows = columns.add(batch) if isinstance(batch, Batch) else scanned.add(batch)
            read = len(columns.rows["start"])
            if rows:
                place = batch.offset, batch.length, batch.strict
                chunks.append(Chunk(read - rows, rows, *place))
            if read > MOST_ROWS:
                raise TraceError(
                    f"{path} holds more than {MOST_ROWS:,} events with a duration, more than can "
                    "be read: record fewer steps"
                )
            if preview is not None and read >= previewed * PREVIEW_GROWTH:
                previewed = read
                preview(arrange(source, columns.so_far(), chunks, {}))
        return assemble(source, head, batches, columns, chunks)


def _watched(
    source: Source, progress: Progress | None, cancelled: Cancelled | None
) -> Iterator[bytes]:
    for piece in source.pieces():
        if cancelled is not None and cancelled():
            raise LoadCancelled
        yield piece
        if progress is not None:
            progress(source.done, source.total)


def read_head(path: Path, pieces: Iterator[bytes]) -> tuple[bytes, bytes]:
    """The text before the first event, and the text after that which was read with it."""
    text, searched = bytearray(), 0
    begin = None
    for piece in pieces:
        text += piece
        begin = start_of_events(path, text, searched)
        searched = len(text)
        if begin is not None or searched > LIMIT:
            break
    if begin is None:
        begin = unproven_start(text)
    if begin is not None:
        return bytes(text[:begin]), bytes(text[begin:])
    if not text.strip():
        raise TraceError(f"{path} holds no text: the profiler did not finish writing; record again")
    within = f" in its first {LIMIT >> 20} MiB" if len(text) > LIMIT else ""
    raise TraceError(
        f"{path} is not a trace: it has no traceEvents{within}; open a file that torch.profiler "
        "exported"
    )


def chained(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """All text behind the head, none of it longer than a piece: what is read at once is kept so."""
    for begin in range(0, len(first), PIECE):
        yield first[begin : begin + PIECE]
    yield from pieces


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Decoding makes millions of short-lived objects and no cycle; collecting triples its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
