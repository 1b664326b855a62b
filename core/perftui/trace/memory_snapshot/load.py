"""Opens memory snapshots, running nothing that the file asks for."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from perftui.trace.kineto.source import GZIP_WINDOW, MAGIC, Source, zlib
from perftui.trace.memory_snapshot.model import MemorySnapshot
from perftui.trace.memory_snapshot.plain_pickle import ENDED, Damage, Plain, PlainPickle
from perftui.trace.memory_snapshot.tables import (
    Row,
    StackTable,
    block_table,
    event_table,
    rows_of,
    segment_table,
)
from perftui.trace.model import LoadCancelled, LoadWarning, TraceError
from perftui.trace.text import printable

_SEGMENTS, _TRACES = "segments", "device_traces"


@dataclass(frozen=True)
class Content:
    """Rows are segments and events; none of them has been looked at yet."""

    fields: dict[str, Plain]
    """Fields of the top level; the rows are taken from below."""
    segments: list[Plain]
    traces: list[Plain]
    """One list of events for each device."""
    segments_whole: bool = True
    whole_traces: int | None = None
    """How many traces have all their events; None for all."""

    @property
    def is_whole(self) -> bool:
        """Whether no row is missing."""
        return self.segments_whole and self.whole_traces is None

    def has_whole(self, device: int) -> bool:
        """Whether all events of this device's trace are there."""
        return self.whole_traces is None or device < self.whole_traces


def content_of(pickle: PlainPickle, damage: Damage | None) -> Content:
    """What was read; raises TraceError for what is no snapshot, and where no row was read."""
    if damage is None:
        return _whole(pickle.stack[-1])
    problem = f"it is damaged at byte {damage.at}: {damage.why}; nothing before that can be shown"
    try:
        content = _finished(pickle.stack, pickle.marks)
    except TraceError as error:
        raise TraceError(f"{problem}: record it again") from error
    pickle.stack.clear()
    if not content.segments and not any(content.traces):
        raise TraceError(f"{problem}: record it again")
    return content


def _whole(tree: Plain) -> Content:
    """What a pickle holds that was read to its end."""
    if isinstance(tree, list) and tree:
        return Content({}, tree, [])
    if not isinstance(tree, dict) or not {_SEGMENTS, _TRACES} & tree.keys():
        raise TraceError("it has no segments and no device_traces: this is not a memory snapshot")
    segments, traces = tree.get(_SEGMENTS, []), tree.get(_TRACES, [])
    if not isinstance(segments, list):
        raise TraceError("segments are not a list of dicts: this is not a memory snapshot")
    if not isinstance(traces, list):
        raise TraceError("'device_traces' is not a list: this is not a memory snapshot")
    return Content(tree, segments, traces)


def _finished(stack: Sequence[Plain], marks: Sequence[int]) -> Content:
    """What a pickle that stops in the middle had finished.

    A list on the stack is taken as far as it goes: it may be open, and no row of it is. A dict on
    top of the stack is left out: whether it was complete is not known.
    """
    root = stack[0] if stack else None
    if isinstance(root, list):
        return replace(_whole(_rows(stack, 0, _end(stack, 0, dict))), segments_whole=False)
    if not isinstance(root, dict):
        raise TraceError("it holds nothing that could be read")
    tree, at = dict(root), 1
    while _is_key(stack, at) and _is_key(stack, at + 2) and not _is_open(marks, at + 2):
        tree[str(stack[at])] = stack[at + 1]
        at += 2
    opened = str(stack[at]) if _is_key(stack, at) else ""
    whole_traces = None if _TRACES in tree else 0
    if opened == _SEGMENTS:
        tree[opened] = _rows(stack, at + 1, _end(stack, at + 1, dict))
    elif opened == _TRACES:
        end = _end(stack, at + 1, list)
        traces = _rows(stack, at + 1, end)
        whole_traces = len(traces)
        if end > at + 2:
            traces.append(_rows(stack, end - 1, _end(stack, end - 1, dict)))
        tree[opened] = traces
    return replace(
        _whole(tree),
        segments_whole=_SEGMENTS in tree and opened != _SEGMENTS,
        whole_traces=whole_traces,
    )


def _is_key(stack: Sequence[Plain], at: int) -> bool:
    return at < len(stack) and isinstance(stack[at], str)


def _is_open(marks: Sequence[int], at: int) -> bool:
    """Whether what lies below this height is being filled."""
    index = bisect_left(marks, at)
    return index < len(marks) and marks[index] == at


def _rows(stack: Sequence[Plain], at: int, end: int) -> list[Plain]:
    """The list at ``at`` and what waits above it to be put into it, but for the last before
    ``end``."""
    listed = stack[at] if at < len(stack) else None
    return [*(listed if isinstance(listed, list) else ()), *islice(stack, at + 1, end - 1)]


def _end(stack: Sequence[Plain], at: int, kind: type[object]) -> int:
    """Where what stands above ``at`` is of another kind."""
    end = at + 1
    while end < len(stack) and isinstance(stack[end], kind):
        end += 1
    return end


MOST_INFLATED = 128
"""Times the file's size that is inflated: real snapshots shrink to a tenth or a twentieth, and gzip
can hold a thousand times its size."""

_ALWAYS = 1024 * 1024
"""Bytes that are inflated of any file."""


def read_bytes(path: Path, check: Callable[[], None]) -> tuple[bytes, Source]:
    """Read and inflate the file, within twice its (inflated) size; ``check`` may raise to stop.

    All that could be read of it, and where it came from, which says whether gzip was damaged.

    Raises TraceError where it cannot be read, is empty, or is larger than ``MOST_INFLATED`` allows.
    """
    source = Source(path)
    most = max(_ALWAYS, MOST_INFLATED * source.total)
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in source.pieces():
            check()
            pieces.append(piece)
            size += len(piece)
            if source.compressed and size > most:
                raise TraceError(
                    f"{path} inflates to more than {MOST_INFLATED} times its size: refused; unpack "
                    "it with gunzip, and open what comes out"
                )
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    if not size and source.damage is None:
        raise TraceError(f"{path} is empty: the snapshot was not written; record it again")
    return b"".join(pieces), source


def inflated_head(head: bytes, size: int) -> bytes:
    """The first bytes of what a file holds, given those of the file, which may be gzip."""
    if not head.startswith(MAGIC):
        return head[:size]
    try:
        return bytes(zlib.decompressobj(GZIP_WINDOW).decompress(head, size))
    except zlib.error:
        return b""


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
