"""Opens memory snapshots, running nothing that the file asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from perftui.trace.errors import LoadCancelled, TraceError
from perftui.trace.memory_snapshot.model import MemorySnapshot
from perftui.trace.memory_snapshot.read_bytes import inflated_head, read_bytes
from perftui.trace.memory_snapshot.recover import read_snapshot

_HEAD = 512
"""Bytes of a pickle that tell whether it is a snapshot."""

_OPENING = re.compile(rb"\x80[\x02-\x05]|\((?:dp|lp)0\n|[\]}]q\x00")
_FIRST_KEY = re.compile(rb"segments|device_traces|total_size|allocated_size|segment_type")


def is_memory_snapshot(first_bytes: bytes) -> bool:
    """Whether a file that begins so is a pickled memory snapshot, gzip or not.

    Some hundred bytes tell; of gzip some thousand, as its header can hold a name.
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
    tuples and dicts; ``plain_pickle.BYTES_HELD_FOR_EACH`` bounds the memory, and
    ``read_bytes.MOST_INFLATED`` what gzip can make of a file. ``progress`` is told the bytes of the
    pickle read and in all, and ``cancelled`` asked, every 256 KiB.

    Of a file that is cut off or damaged the segments and events before the damage are loaded; one
    of ``warnings`` says where it lies.

    Raises TraceError, which says what to do, where the file cannot be read, is no memory snapshot,
    is damaged before its first segment or event is read, or asks for more than plain values,
    damaged or not; LoadCancelled after ``cancelled`` returned True.
    """

    def check(_: int = 0) -> None:
        if cancelled is not None and cancelled():
            raise LoadCancelled

    file = read_bytes(path, check)

    def watch(done: int) -> None:
        check()
        if progress is not None:
            progress(done, len(file.data))

    try:
        return read_snapshot(path, file, watch, check)
    except TraceError as error:
        raise TraceError(f"cannot read {path}: {error}") from error
