"""Loads Kineto (Chrome) traces: one file into one ordered, nested ``Trace``; and copies their text,
with further events before its own, in bounded memory."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from perftui.trace.columns.arrays import downcast, nest_by_category, order, time_outliers
from perftui.trace.foreign import HEAD, RECORD, refusal
from perftui.trace.kineto.arguments import ArgumentReader, Chunk
from perftui.trace.kineto.columns import Columns, ScannedColumns, Side, Tally
from perftui.trace.kineto.damaged_text import (
    BYTE_ORDER_MARK,
    LIMIT,
    fields_before,
    fields_behind,
    is_object,
    recover,
    second_list,
    start_of_events,
    top_level_fields,
    unproven_start,
)
from perftui.trace.kineto.events import NOT_STRICT, UNTIMED
from perftui.trace.kineto.read_events import Batch, Batches, Scanned, open_scanner
from perftui.trace.kineto.source import PIECE, Source, first_piece
from perftui.trace.model import (
    FIRST_PREVIEW,
    KERNEL,
    MEMCPY,
    MTIA,
    NONE,
    OF_PYTORCH,
    PREVIEW_GROWTH,
    Cancelled,
    Int32,
    Int64,
    Ints,
    LoadCancelled,
    LoadWarning,
    MemoryEvents,
    Preview,
    Progress,
    Trace,
    TraceError,
    normalise,
)

_KERNEL = re.compile(r".+-dtype_\w+")
"""``fc-dtype_Float``: an operator and its data type. Other events are commands of the firmware, as
``merge`` and ``event_wait``, of which some wait for others."""

_COPY = "dma_request"

NAMED = 5
"""Categories that an error names."""


def with_device_kernels(
    categories: tuple[str, ...], category: Ints, names: tuple[str, ...], name: Int32
) -> tuple[tuple[str, ...], Ints]:
    """``categories`` and the column of indices into them, with operators that the device runs as
    kernels, and its transfers beside them as copies; unchanged if there are none."""
    if MTIA not in categories:
        return categories, category
    is_kernel = np.array([_KERNEL.match(text) is not None for text in names])
    of_device = category == categories.index(MTIA)
    kernels = of_device & is_kernel[name]
    if not kernels.any():
        return categories, category
    copies = of_device & np.array([text == _COPY for text in names])[name]
    extended = tuple(dict.fromkeys((*categories, KERNEL, MEMCPY)))
    kinds = np.where(kernels, extended.index(KERNEL), category)
    return extended, downcast(np.where(copies, extended.index(MEMCPY), kinds).astype(np.int32))


_WALL_CLOCK = 10**18
"""Nanoseconds since the epoch in 2001: a later origin is no time since boot."""

_LONGEST = 30
"""Most digits of a number that can be a time."""

_SINGULAR = dict(
    event="event", it="it", **{"is": "is"}, was="was", has="has", does="does", seems="seems",
    begins="begins", ends="ends",
)  # fmt: skip
_PLURAL = dict(
    event="events", it="they", **{"is": "are"}, was="were", has="have", does="do", seems="seem",
    begins="begin", ends="end",
)  # fmt: skip
"""Words of a warning about one event, and about several."""


def assemble(
    source: Source, head: bytes, batches: Batches, columns: Columns, chunks: Sequence[Chunk]
) -> Trace:
    """The trace; ``columns`` are used up. Raises TraceError if there is no row."""
    if not len(columns.rows["start"]):
        damage = f" ({source.damage})" if source.damage else ""
        what, why = "events", "it is not a trace, or was not written completely; record again"
        if columns.events:
            what = "event with a duration"
            why = "record again with the profiler active for at least one step"
        raise refusal(source.path, first_piece(source.path), f"holds no {what}{damage}: {why}")
    metadata, understood = top_level_fields(head, batches.tail)
    trace = arrange(source, columns, chunks, metadata)
    if not OF_PYTORCH.intersection(trace.categories):
        kinds = ", ".join(sorted(filter(None, trace.categories))[:NAMED]) or "none"
        why = f"holds no event of PyTorch (categories of its events: {kinds}); {RECORD}"
        raise refusal(source.path, first_piece(source.path), why)
    return replace(trace, warnings=tuple(_warnings(source, batches, columns, understood, trace)))


def arrange(
    source: Source, columns: Columns, chunks: Sequence[Chunk], metadata: Mapping[str, Any]
) -> Trace:
    """The rows, sorted and nested; ``columns`` are used up, and hold at least one row.

    Raises TraceError if no row has a time.
    """
    tracks, among_tracks = columns.tracks.tracks()
    track = downcast(among_tracks)[columns.rows["track"].take()]
    start, duration = (
        columns.rows[name].take().astype(np.int64, copy=False) for name in ("start", "duration")
    )
    rows = _ordered(source, track, start, duration)
    track = track[rows]
    start = start[rows]
    duration = duration[rows]
    names = tuple(columns.names)
    name = columns.rows["name"].take()[rows].astype(np.int32, copy=False)
    categories, category = with_device_kernels(*_categories(columns, rows), names, name)
    nesting = nest_by_category(track, start, duration, category, categories)
    origin = int(start.min())
    start -= origin
    base, wall_origin = metadata.get("baseTimeNanoseconds"), None
    if isinstance(base, str) and base.isdecimal() and len(base) < _LONGEST:
        base = int(base)
    if isinstance(base, int) and not isinstance(base, bool):
        wall_origin = base + origin
    elif origin > _WALL_CLOCK:
        wall_origin = origin
    return Trace(
        path=source.path,
        start=start,
        duration=duration,
        name=name,
        category=category,
        track=track,
        correlation=columns.rows["correlation"].take()[rows],
        external_id=columns.rows["external_id"].take()[rows],
        bytes=columns.rows["bytes"].take()[rows],
        parent=nesting.parent,
        depth=nesting.depth,
        names=names,
        categories=categories,
        tracks=tracks,
        origin=origin,
        wall_origin=wall_origin,
        complete_events=columns.complete_events,
        metadata=metadata,
        read_arguments=ArgumentReader(source, tuple(chunks), rows),
        memory=_memory(columns, origin, among_tracks),
    )


def _memory(columns: Columns, origin: int, among_tracks: Int32) -> MemoryEvents:
    """Allocations and releases by time; equal times keep the order of the file."""
    memory = {
        name: column.take().astype(np.int64, copy=False) for name, column in columns.memory.items()
    }
    memory["start"] -= origin
    if len(memory["track"]):
        # Threads without rows have no track.
        numbers = columns.tracks.index.numbers
        sides = ([(*ids, side) for side in (Side.HOST, Side.EITHER)] for ids in columns.threads)
        numbers_ = (next((numbers[key] for key in keys if key in numbers), NONE) for keys in sides)
        of_thread = [NONE if number == NONE else among_tracks[number] for number in numbers_]
        memory["track"] = np.array(of_thread, np.int64)[memory["track"]]
    order = np.argsort(memory["start"], kind="stable")
    return MemoryEvents(**{name: column[order] for name, column in memory.items()})


def _ordered(source: Source, track: Ints, start: Int64, duration: Int64) -> Int32:
    """Rows with a time, in the order of the trace."""
    timed = np.flatnonzero(start != UNTIMED)
    if not len(timed):
        raise TraceError(f"{source.path} is not a trace: no event has a time that is a number")
    if len(timed) == len(start):
        return order(track, start, duration)
    return timed.astype(np.int32)[order(track[timed], start[timed], duration[timed])]


def _categories(columns: Columns, rows: Int32) -> tuple[tuple[str, ...], Ints]:
    """Distinct names of categories, and the column of indices into them."""
    labels = [normalise(*key) for key in columns.categories]
    names = tuple(dict.fromkeys(labels))
    renumber = np.array([names.index(label) for label in labels], dtype=np.int32)
    return names, downcast(renumber)[columns.rows["category"].take()[rows]]


def _warnings(
    source: Source, batches: Batches, columns: Columns, understood: bool, trace: Trace
) -> Iterator[LoadWarning]:
    end = batches.offset if batches.cut is None else batches.cut
    unit = " of the inflated text" if source.compressed else ""
    if source.damage or not batches.closed:
        damage = source.damage or "the file ends before its list of events does"
        yield LoadWarning(f"{damage}; loaded up to byte {end:,}{unit}", end, is_cut=True)
    if not understood:
        yield LoadWarning("the fields around the list of events are not valid JSON")
    unread = Tally(len(batches.skipped), min(batches.skipped, default=None))
    # An event can be invalid JSON, or lack the separator before it.
    repaired = Tally(len({*batches.repaired}), min(batches.repaired, default=None))
    counts = (
        (unread, "left out {} that {is} not valid JSON"),
        (repaired, "{} {is} not valid JSON, and {was} read as {it} {seems} to be meant"),
        (columns.untimed, "left out {} whose time is not a number, or beyond 73 years"),
        (columns.unknown, "left out {} that {does} not say what {it} {is}"),
        (columns.unpaired, "left out {} that only {begins} or {ends} something"),
        (columns.unmeasured, "{} {has} a duration that is not a number, taken as 0"),
        (columns.negative, "{} {has} a negative duration, taken as 0"),
    )
    for tally, message in counts:
        if tally.first is not None:
            words = _SINGULAR if tally.count == 1 else _PLURAL
            text = message.format(f"{tally.count:,} {words['event']}", **words)
            place = f"; the first is at byte {tally.first:,}{unit}"
            yield LoadWarning(text + place, tally.first)
    again = second_list(batches.tail)
    if again is not None:
        at = batches.offset + again
        message = f"a second list of events begins at byte {at:,}{unit}: it was not read"
        yield LoadWarning(message, at)
    apart = time_outliers(trace.start)
    if apart is not None and isinstance(trace.read_arguments, ArgumentReader):
        at = trace.read_arguments.first_offset(apart.rows)
        yield LoadWarning(f"{apart.message}; the first is at byte {at:,}{unit}", at)


MOST_ROWS = 2**31 - 1
"""Most rows of the columns that number them."""


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
    """The text before the first event, and the text already read after that."""
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
    why = f"is not a trace: it has no traceEvents{within}; {RECORD}"
    raise refusal(path, bytes(text[:HEAD]), why)


def chained(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """All text after the head; the first part is split so that none exceeds a piece."""
    for begin in range(0, len(first), PIECE):
        yield first[begin : begin + PIECE]
    yield from pieces


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Decoding makes millions of short-lived objects, no cycles; collecting triples its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_EVENTS = msgspec.json.Decoder(list[dict[str, Any]], float_hook=Decimal)


Rewrite = Callable[[Any], Any]
"""Returns new values for decoded ones."""


def with_events(
    source: Source, ours: Iterable[bytes], rewrite: Rewrite | None = None
) -> Iterator[bytes]:
    """The text of ``source`` with the events ``ours``, each as JSON, in front of its own.

    Events and the fields around them are the file's text, byte for byte. The result is valid JSON
    even if the file is not: repairable parts are repaired, unreadable ones left out. With
    ``rewrite`` none of the text is copied: each event and the fields around them are replaced by
    its results. Raises TraceError if the file is gone, has changed since or is no trace."""
    pieces = source.pieces()
    head, first = read_head(source.path, pieces)
    head, begin = head.removeprefix(BYTE_ORDER_MARK).strip(), len(head)
    is_list = head.startswith(b"[")
    if is_list and rewrite is not None:
        yield b"["
    elif is_list or (rewrite is None and is_object(head + b"]}")):
        yield head
    else:
        yield b"{" + _fields(fields_before(head), rewrite) + b'"traceEvents": ['
    separator = b""
    for event in ours:
        yield separator + event
        separator = b",\n"
    batches = Batches(begin, open_scanner())
    for batch in batches.decode(chained(first, pieces)):
        if text := _events(batch, rewrite):
            yield separator
            yield text
            separator = b",\n"
    if is_list:
        yield b"]"
    elif rewrite is None and is_object(b'{"traceEvents":[]' + batches.tail):
        yield b"]" + batches.tail
    else:
        fields = _fields(fields_behind(batches.tail), rewrite)
        yield b"]," + fields[:-1] + b"}" if fields else b"]}"


def _events(batch: Batch | Scanned, rewrite: Rewrite | None) -> bytes:
    if rewrite is not None:
        return b",\n".join(_encoded(rewrite(event)) for event in _decoded(batch))
    if isinstance(batch, Scanned) or batch.strict:
        return batch.text[1:-1]
    recovered = recover(batch.raw, last=True)
    texts = []
    bounds = pairwise((*recovered.starts, len(batch.raw)))
    for (start, end), fields in zip(bounds, recovered.objects, strict=True):
        # The original text, or its fields if that is no JSON.
        spelled = batch.raw[start : batch.raw.rfind(b"}", start, end) + 1]
        texts.append(spelled if is_object(spelled) else _encoded(fields))
    return b",\n".join(texts)


def _decoded(batch: Batch | Scanned) -> list[dict[str, Any]]:
    """All events with all of their fields."""
    if isinstance(batch, Scanned) or batch.strict:
        try:
            return _EVENTS.decode(batch.text)
        except NOT_STRICT:
            return recover(batch.text[1:-1], last=True).objects
    return recover(batch.raw, last=True).objects


def _fields(fields: dict[str, Any] | None, rewrite: Rewrite | None) -> bytes:
    """Fields of an object, each followed by a comma."""
    others = {name: value for name, value in (fields or {}).items() if name != "traceEvents"}
    return _encoded(rewrite(others) if rewrite else others)[1:-1] + b"," if others else b""


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(_encodable(value))


def _encodable(value: Any) -> Any:
    """Plain values with all digits of their numbers; ``null`` for those that JSON lacks."""
    if isinstance(value, dict):
        return {name: _encodable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, Decimal) or (isinstance(value, int) and abs(value) > 2**63 - 1):
        return msgspec.Raw(str(value).encode())
    return value
