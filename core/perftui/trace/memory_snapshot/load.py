"""Reads a memory snapshot into tables, running nothing that the file asks for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeGuard

from perftui.trace.errors import LoadCancelled, TraceError
from perftui.trace.inflate import MAGIC
from perftui.trace.memory_snapshot.fields import Row, rows_of
from perftui.trace.memory_snapshot.model import MemorySnapshot
from perftui.trace.memory_snapshot.plain_pickle import PlainPickle
from perftui.trace.memory_snapshot.stack_table import StackTable
from perftui.trace.memory_snapshot.tables import (
    Categories,
    block_table,
    event_table,
    segment_table,
)
from perftui.trace.text import printable

_OPENING = re.compile(rb"\x80[\x02-\x05]|\((?:dp|lp)0\n|[\]}]q\x00")
_FIRST_KEY = re.compile(rb"segments|device_traces|total_size|allocated_size|segment_type")

_MOST_SETTINGS = 4096
_SETTING_BITS = 64
_NAMES_SHOWN = 3


def is_memory_snapshot(first_bytes: bytes) -> bool:
    """Whether a file that begins so (give some hundred bytes) is a pickled memory snapshot."""
    return bool(_OPENING.match(first_bytes) and _FIRST_KEY.search(first_bytes))


def load_memory_snapshot(
    path: Path,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> MemorySnapshot:
    """Load what ``torch.cuda.memory._dump_snapshot`` wrote, or a pickled ``memory_snapshot()``.

    Nothing in the file is imported, called or built beyond numbers, text, lists, tuples and dicts;
    ``plain_pickle.BYTES_HELD_FOR_EACH`` bounds the memory. ``progress`` is told the bytes read and
    in all, and ``cancelled`` asked, every 256 KiB.

    Raises TraceError, which says what to do, where the file cannot be read, is damaged, is no
    memory snapshot or asks for more than plain values; LoadCancelled after ``cancelled`` returned
    True.
    """
    data = _read(path)

    def watch(done: int) -> None:
        if cancelled is not None and cancelled():
            raise LoadCancelled
        if progress is not None:
            progress(done, len(data))

    try:
        pickle = PlainPickle(data)
        tree = pickle.read(watch)
        return _snapshot(path, tree, len(data), len(data) - pickle.end)
    except TraceError as error:
        raise TraceError(f"cannot read {path}: {error}") from error


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    if not data:
        raise TraceError(f"{path} is empty: the snapshot was not written; record it again")
    if data.startswith(MAGIC):
        raise TraceError(f"{path} is gzip: unpack it with gunzip, and open what comes out")
    return data


def _snapshot(path: Path, tree: object, size: int, behind: int) -> MemorySnapshot:
    if isinstance(tree, list) and tree:
        tree = {"segments": tree}
    if not isinstance(tree, dict) or not {"segments", "device_traces"} & tree.keys():
        raise TraceError("it has no segments and no device_traces: this is not a memory snapshot")
    segments = rows_of(tree.get("segments", []), "segments")
    stacks, unknown = StackTable(), Counter[str]()
    categories = Categories(tree.get("categories", []))
    blocks = block_table(segments, stacks, most=size)
    traces = tuple(
        event_table(device, events, stacks, categories, unknown)
        for device, events in enumerate(_traces(tree.get("device_traces", []), most=size))
    )
    return MemorySnapshot(
        path=path,
        segments=segment_table(segments, blocks, stacks),
        blocks=blocks,
        traces=traces,
        stacks=stacks.stacks(),
        categories=categories.names,
        settings=_settings(tree.get("allocator_settings")),
        warnings=_warnings(unknown, behind),
    )


def _traces(value: object, most: int) -> list[list[Row]]:
    """Raises TraceError for more events than ``most``: a list can be named any number of times."""
    if not isinstance(value, list):
        raise TraceError("'device_traces' is not a list: this is not a memory snapshot")
    if sum(len(events) + 1 for events in value if isinstance(events, list)) > most:
        raise TraceError("it lists more events than it has bytes: refused")
    return [rows_of(events, "device_traces") for events in value]


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


def _warnings(unknown: Counter[str], behind: int) -> tuple[str, ...]:
    warnings = []
    if unknown:
        names = ", ".join(printable(name)[:40] for name, _ in unknown.most_common(_NAMES_SHOWN))
        warnings.append(f"{unknown.total()} events have actions that are not known: {names}")
    if behind:
        warnings.append(f"{behind} bytes behind the snapshot were not read")
    return tuple(warnings)


def _is_setting(value: object) -> TypeGuard[int | float | str]:
    """Integers beyond 64 bits are none, and cannot always be shown."""
    if isinstance(value, int):
        return value.bit_length() <= _SETTING_BITS
    return isinstance(value, float | str)
