"""The tables of a snapshot from its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

from perftui.trace.memory_snapshot.content import Content
from perftui.trace.memory_snapshot.fields import Row, rows_of
from perftui.trace.memory_snapshot.model import MemorySnapshot
from perftui.trace.memory_snapshot.refusal import RefusedError
from perftui.trace.memory_snapshot.stack_table import StackTable
from perftui.trace.memory_snapshot.tables import (
    Categories,
    block_table,
    event_table,
    segment_table,
)
from perftui.trace.model import LoadWarning
from perftui.trace.text import printable

_MOST_SETTINGS = 4096
_SETTING_BITS = 64
_NAMES_SHOWN = 3


def assemble(
    path: Path, content: Content, size: int, warnings: tuple[LoadWarning, ...]
) -> MemorySnapshot:
    """All tables; ``size`` is the pickle's in bytes, which bounds the rows.

    Raises TraceError where one row is none of a snapshot, RefusedError for too many rows.
    """
    segments = rows_of(content.segments, "segments")
    stacks, unknown = StackTable(), Counter[str]()
    categories = Categories(content.fields.get("categories", []))
    blocks = block_table(segments, stacks, most=size)
    traces = tuple(
        event_table(device, events, stacks, categories, unknown, content.has_whole(device))
        for device, events in enumerate(_traces(content.traces, most=size))
    )
    return MemorySnapshot(
        path=path,
        segments=segment_table(segments, blocks, stacks, content.segments_whole),
        blocks=blocks,
        traces=traces,
        stacks=stacks.stacks(),
        categories=categories.names,
        settings=_settings(content.fields.get("allocator_settings")),
        whole=content.is_whole,
        warnings=(*warnings, *_not_shown(content, unknown)),
    )


def _traces(traces: list[object], most: int) -> list[list[Row]]:
    """Raises RefusedError for more than ``most`` events: one list can be named many times."""
    if sum(len(events) + 1 for events in traces if isinstance(events, list)) > most:
        raise RefusedError("it lists more events than it has bytes: refused")
    return [rows_of(events, "device_traces") for events in traces]


def _settings(value: object) -> dict[str, int | float | bool | str]:
    """Plain values, and those one level below; a file can nest them without end."""
    found: dict[str, int | float | bool | str] = {}
    pairs = list(value.items()) if isinstance(value, dict) else []
    for key, setting in pairs[:_MOST_SETTINGS]:
        inner = setting.items() if isinstance(setting, dict) else ()
        named = [(key, setting), *((f"{key}.{name}", each) for name, each in inner)]
        for name, each in named[:_MOST_SETTINGS]:
            if _is_setting(each) and len(found) < _MOST_SETTINGS:
                found[name] = each
    return found


def _not_shown(content: Content, unknown: Counter[str]) -> Iterator[LoadWarning]:
    if unknown:
        names = ", ".join(printable(name)[:40] for name, _ in unknown.most_common(_NAMES_SHOWN))
        yield LoadWarning(f"{unknown.total()} events have actions that are not known: {names}")
    host = content.fields.get("host_segments")
    if isinstance(host, list) and host:
        yield LoadWarning(f"{len(host)} segments of pinned host memory are not shown")


def _is_setting(value: object) -> TypeGuard[int | float | str]:
    """Integers beyond 64 bits are none, and cannot always be shown."""
    if isinstance(value, int):
        return value.bit_length() <= _SETTING_BITS
    return isinstance(value, float | str)
