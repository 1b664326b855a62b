"""Open a trace file with all its tables: from the cache, or by reading it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from perftui.analysis.model import TraceAnalysis
from perftui.trace.cache import (
    Array,
    CannotBeKept,
    Record,
    Store,
    cache_directory,
    code_identity,
    digest,
    file_identity,
    pack,
    unpack,
)
from perftui.trace.kineto.arguments import ArgumentReader
from perftui.trace.kineto.source import Source
from perftui.trace.model import Cancelled, Preview, Progress, Trace, TraceError
from perftui.trace.remote import fill, named

if TYPE_CHECKING:
    from perftui.trace.nsys.columns import StoredRows
    from perftui.trace.nsys.report import ExportProgress

Work = Callable[[], None]

FEWEST_ROWS = 100_000
"""Fewest rows of a cached trace: smaller ones open in 0.3 s."""

_LONGEST_S = 10.0
"""Seconds after which caching a trace is given up: a finished process waits for it, and a disk so
slow would not make the second opening quick."""


def open_trace(
    path: Path,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    preview: Preview | None = None,
    later: Callable[[Work], None] | None = None,
    exporting: ExportProgress | None = None,
) -> TraceAnalysis:
    """The trace at ``path`` and all its tables.

    A trace of at least ``FEWEST_ROWS`` rows is cached, unless ``PERFTUI_CACHE=off``, and reused
    while the file does not change. ``later`` receives the work of caching it; without ``later`` a
    new thread does it. ``progress``, ``cancelled``, ``preview`` and ``exporting`` are those of
    ``load_trace``; a previewed trace is previewed again when complete. A remote trace that ``path``
    stands in for is copied first, also with ``progress``.

    Raises:
        TraceError: the file is not a trace that can be read.
        LoadCancelled: ``cancelled`` returned True.
    """
    if fill(path, progress, cancelled):
        # It is not cached: its local name differs each time.
        try:
            return _read(path, progress, cancelled, preview, exporting)
        except TraceError as error:
            raise TraceError(named(str(error))) from error
    directory = cache_directory()
    store = Store(directory) if directory else None
    identity = file_identity(path) if store else None
    if store is None or identity is None:
        return _read(path, progress, cancelled, preview, exporting)
    record = store.find(path, digest(identity + _code()))
    cached = None if record is None else _unpacked(path, record, store.directory)
    if cached is not None:
        return cached
    analysis = _read(path, progress, cancelled, preview, exporting)
    if len(analysis.trace) >= FEWEST_ROWS:
        work = _caching(store, identity, analysis, cancelled)
        if later is not None:
            later(work)
        else:
            threading.Thread(target=work, name="perftui-keeping").start()
    return analysis


def never(work: Work) -> None:
    """Cache nothing: for ``later`` of ``open_trace``, as when a training may need the disk."""


def _read(
    path: Path,
    progress: Progress | None,
    cancelled: Cancelled | None,
    preview: Preview | None,
    exporting: ExportProgress | None,
) -> TraceAnalysis:
    # Imported here, as a cached trace needs none of it: half of the time to open one.
    from perftui.analysis.analyse import analyse
    from perftui.trace.formats import load_trace

    drawn = []

    def previewed(trace: Trace) -> None:
        if preview is not None:
            drawn.append(len(trace))
            preview(trace)

    trace = load_trace(path, progress, cancelled, previewed, exporting)
    if drawn:
        # The tables of so long a trace take as long as reading it; its tracks are ready now.
        previewed(trace)
    return analyse(trace)


@cache
def _code() -> bytes:
    rooms = Path(__file__).parents[1]
    return code_identity(rooms / "trace", rooms / "analysis")


class _Document(msgspec.Struct, frozen=True):
    trace: msgspec.Raw
    tables: msgspec.Raw
    arguments: msgspec.Raw
    of_database: bool
    """Whether the arguments are rows of a database, not pieces of text."""


def _caching(
    store: Store, identity: bytes, analysis: TraceAnalysis, cancelled: Cancelled | None
) -> Work:
    def keep() -> None:
        deadline = time.monotonic() + _LONGEST_S

        def stopped() -> bool:
            return time.monotonic() > deadline or (cancelled is not None and cancelled())

        record = _packed(analysis, store.directory)
        path = analysis.trace.path
        # A file written to meanwhile is not the one that was read.
        if record is not None and file_identity(path) == identity:
            store.keep(path, digest(identity + _code()), record, stopped)

    return keep


def _packed(analysis: TraceAnalysis, directory: Path) -> Record | None:
    """The cache record of ``analysis``; None if its arguments need more than its file and
    ``directory``, or JSON cannot express it."""
    from perftui.analysis.timeline.tracks import timeline_tracks

    trace = analysis.trace
    stored = _stored(trace, directory)
    if stored is None:
        return None
    tables = replace(analysis, timeline_tracks=timeline_tracks(trace))
    columns: list[Array] = []
    try:
        document = _Document(
            msgspec.Raw(pack(trace, columns, leave_out=("path", "read_arguments"))),
            msgspec.Raw(pack(tables, columns, leave_out=("trace",))),
            msgspec.Raw(pack(stored, columns, leave_out=("source",))),
            not isinstance(stored, ArgumentReader),
        )
    except CannotBeKept:
        return None
    return Record(msgspec.json.encode(document), columns)


def _stored(trace: Trace, directory: Path) -> ArgumentReader | StoredRows | None:
    reader = trace.read_arguments
    if isinstance(reader, ArgumentReader):
        return reader
    from perftui.trace.nsys.columns import RowReader, stored_rows

    return stored_rows(reader, trace.path, directory) if isinstance(reader, RowReader) else None


def _unpacked(path: Path, record: Record, directory: Path) -> TraceAnalysis | None:
    """The cached analysis; None if its arguments can no longer be read."""
    document = msgspec.json.decode(record.document, type=_Document)
    reader: Callable[[int], Mapping[str, Any]] | None
    if document.of_database:
        from perftui.trace.nsys.columns import StoredRows

        reader = unpack(StoredRows, document.arguments, record.columns).reader(path, directory)
    else:
        reader = unpack(ArgumentReader, document.arguments, record.columns, source=Source(path))
    if reader is None:
        return None
    trace = unpack(Trace, document.trace, record.columns, path=path, read_arguments=reader)
    return unpack(TraceAnalysis, document.tables, record.columns, trace=trace)
