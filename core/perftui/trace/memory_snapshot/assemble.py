"""The tables of a snapshot from its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from perftui.trace.memory_snapshot.content import Content
from perftui.trace.memory_snapshot.fields import Row, rows_of
from perftui.trace.memory_snapshot.model import MemorySnapshot
from perftui.trace.memory_snapshot.refusal import RefusedError
from perftui.trace.memory_snapshot.stack_table import StackTable
from perftui.trace.memory_snapshot.tables import (
    block_table,
    event_table,
    segment_table,
)
from perftui.trace.model import LoadWarning
from perftui.trace.text import printable

_NAMES_SHOWN = 3


def assemble(
    path: Path, content: Content, size: int, warnings: tuple[LoadWarning, ...]
) -> MemorySnapshot:
    """All tables; ``size`` is the pickle's in bytes, which bounds the rows.

    Raises TraceError where one row is none of a snapshot, RefusedError for too many rows.
    """
    segments = rows_of(content.segments, "segments")
    stacks, unknown = StackTable(), Counter[str]()
    blocks = block_table(segments, stacks, most=size)
    traces = tuple(
        event_table(device, events, stacks, unknown, content.has_whole(device))
        for device, events in enumerate(_traces(content.traces, most=size))
    )
    return MemorySnapshot(
        path=path,
        segments=segment_table(segments, blocks, content.segments_whole),
        blocks=blocks,
        traces=traces,
        stacks=stacks.stacks(),
        whole=content.is_whole,
        warnings=(*warnings, *_not_shown(content, unknown)),
    )


def _traces(traces: list[object], most: int) -> list[list[Row]]:
    """Raises RefusedError for more than ``most`` events: one list can be named many times."""
    if sum(len(events) + 1 for events in traces if isinstance(events, list)) > most:
        raise RefusedError("it lists more events than it has bytes: refused")
    return [rows_of(events, "device_traces") for events in traces]


def _not_shown(content: Content, unknown: Counter[str]) -> Iterator[LoadWarning]:
    if unknown:
        names = ", ".join(printable(name)[:40] for name, _ in unknown.most_common(_NAMES_SHOWN))
        yield LoadWarning(f"{unknown.total()} events have actions that are not known: {names}")
    host = content.fields.get("host_segments")
    if isinstance(host, list) and host:
        yield LoadWarning(f"{len(host)} segments of pinned host memory are not shown")
