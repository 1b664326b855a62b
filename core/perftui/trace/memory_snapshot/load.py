"""Opens memory snapshots, running nothing that the file asks for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from perftui.trace.errors import LoadCancelled, TraceError
from perftui.trace.kineto.source import Source
from perftui.trace.memory_snapshot.content import Content, content_of
from perftui.trace.memory_snapshot.fields import Row, rows_of
from perftui.trace.memory_snapshot.model import MemorySnapshot
from perftui.trace.memory_snapshot.plain_pickle import ENDED, Damage, PlainPickle
from perftui.trace.memory_snapshot.read_bytes import inflated_head, read_bytes
from perftui.trace.memory_snapshot.stack_table import StackTable
from perftui.trace.memory_snapshot.tables import block_table, event_table, segment_table
from perftui.trace.model import LoadWarning
from perftui.trace.text import printable

_HEAD = 512
"""Bytes of a pickle that show whether it is a snapshot."""

_OPENING = re.compile(rb"\x80[\x02-\x05]")
_NAMES_SHOWN = 3
_FIRST_KEY = re.compile(rb"segments|device_traces|total_size|allocated_size|segment_type")


def is_memory_snapshot(first_bytes: bytes) -> bool:
    """Whether a file that begins so is a pickled memory snapshot, gzip or not.

    Some hundred bytes are enough; of gzip some thousand, as its header can hold a name.
    """
    head = inflated_head(first_bytes, _HEAD)
    return bool(_OPENING.match(head) and _FIRST_KEY.search(head))


def load_memory_snapshot(
    path: Path,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> MemorySnapshot:
    """Load what ``torch.cuda.memory._dump_snapshot`` wrote, or a pickled ``memory_snapshot()``.

    It may be gzip. Nothing in the file is imported, called or built beyond numbers, text, lists,
    tuples and dicts; ``PlainPickle`` bounds the memory, and ``read_bytes.MOST_INFLATED`` what gzip
    can make of a file. ``progress`` is called with the bytes of the pickle read and in all, and
    ``cancelled`` asked, every 256 KiB.

    Of a file that is cut off or damaged the segments and events before the damage are loaded; one
    of ``warnings`` says where it lies. Nothing behind it is read: instructions name values by the
    count of those before them, so it would be read as something else than was written.

    Raises TraceError, which says what to do, where the file cannot be read, is no memory snapshot,
    is damaged before its first segment or event is read, holds one whose fields are none of a
    snapshot, or asks for more than plain values, damaged or not; LoadCancelled after ``cancelled``
    returned True.
    """

    def check() -> None:
        if cancelled is not None and cancelled():
            raise LoadCancelled

    def watch(done: int) -> None:
        check()
        if progress is not None:
            progress(done, len(data))

    data, source = read_bytes(path, check)
    try:
        pickle = PlainPickle(data)
        damage = pickle.run(watch)
        content = content_of(pickle, damage)
        warnings = _damage_of(source, damage, pickle.end, len(data))
        return _snapshot(path, content, len(data), warnings)
    except TraceError as error:
        raise TraceError(f"cannot read {path}: {error}") from error


def _damage_of(source: Source, damage: Damage | None, end: int, size: int) -> list[LoadWarning]:
    """At most one warning; the bytes behind what is whole are no damage."""
    at = end if damage is None else damage.at
    where = f"loaded up to byte {at:,}{' of the inflated pickle' if source.compressed else ''}"
    if damage is not None and damage.why != ENDED:
        return [LoadWarning(f"the file is damaged ({damage.why}); {where}", at)]
    if source.damage is not None:
        return [LoadWarning(f"{source.damage}; {where}", at)]
    if damage is not None:
        return [LoadWarning(f"the file ends before its value does; {where}", at)]
    if size > end:
        return [LoadWarning(f"{size - end} bytes after the snapshot were not read", end)]
    return []


def _snapshot(
    path: Path, content: Content, size: int, warnings: list[LoadWarning]
) -> MemorySnapshot:
    """All tables; ``size`` is the pickle's in bytes, which bounds the rows."""
    segments = rows_of(content.segments, "segments")
    stacks, unknown = StackTable(), Counter[str]()
    blocks = block_table(segments, stacks, most=size)
    traces = tuple(
        event_table(device, events, stacks, unknown, content.has_whole(device))
        for device, events in enumerate(_traces(content.traces, most=size))
    )
    return MemorySnapshot(
        path=path,
        segments=segment_table(segments, content.segments_whole),
        blocks=blocks,
        traces=traces,
        stacks=stacks.stacks(),
        whole=content.is_whole,
        warnings=(*warnings, *_not_shown(content, unknown)),
    )


def _traces(traces: list[object], most: int) -> list[list[Row]]:
    """Raises TraceError for more than ``most`` events: one list can be named many times."""
    if sum(len(events) + 1 for events in traces if isinstance(events, list)) > most:
        raise TraceError("it lists more events than it has bytes: refused")
    return [rows_of(events, "device_traces") for events in traces]


def _not_shown(content: Content, unknown: Counter[str]) -> Iterator[LoadWarning]:
    if unknown:
        names = ", ".join(printable(name)[:40] for name, _ in unknown.most_common(_NAMES_SHOWN))
        yield LoadWarning(f"{unknown.total()} events have actions that are not known: {names}")
    host = content.fields.get("host_segments")
    if isinstance(host, list) and host:
        yield LoadWarning(f"{len(host)} segments of pinned host memory are not shown")
