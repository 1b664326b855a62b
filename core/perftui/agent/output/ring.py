"""The ring through which a training process hands over its intervals.

A preallocated file, mapped shared: writing is a store to memory, needs no reader, and what was
written survives the death of the process. ``wire.ring`` describes the format.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import time
from pathlib import Path
from typing import Any

from ...wire.ring import HEAD_OFFSET, KINDS, LOST_NOTES_OFFSET, PAGE, RECORD, VERSION

pack_into, SIZE = RECORD.pack_into, RECORD.size

CAPACITY = 32768
"""1.5 MiB: 4 s of the fastest loop measured (1 ms steps of 7 records); container images often
limit ``/dev/shm`` to 64 MB for all processes together."""


class RingWriter:
    """Writes records into ``memory``, which holds a header page and ``capacity`` slots.

    One thread writes, here or in C (``fast_path.h``): only the memory knows how many records there
    are.
    An interrupt between the two stores loses that record and no other.
    """

    def __init__(self, memory: mmap.mmap, capacity: int) -> None:
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        """Where ``memory`` begins, as long as this writer exists."""
        self.capacity = capacity
        self._memory = memory
        self._head = memoryview(memory)[HEAD_OFFSET:PAGE].cast("Q")
        self._lost_notes = memoryview(memory)[LOST_NOTES_OFFSET:HEAD_OFFSET].cast("Q")

    def lose_notes(self, count: int) -> None:
        """Store how many notes could not be written so far: here is room always."""
        self._lost_notes[0] = count

    def write(
        self,
        kind: int,
        start: int,
        duration: int,
        step: int,
        value: int = 0,
        extra: int = 0,
        flag: int = 0,
    ) -> None:
        """Append one finished interval: ``start`` by ``perf_counter_ns``, ``duration`` in ns."""
        number = self._head[0]
        offset = PAGE + number % self.capacity * SIZE
        pack_into(self._memory, offset, number, start, duration, value, extra, step, kind, flag)
        # After the record: the reader trusts every slot below the head.
        self._head[0] = number + 1


def create_ring(path: Path, facts: dict[str, Any], capacity: int = CAPACITY) -> RingWriter:
    """Create the ring at ``path``; it appears there only once it is whole.

    ``facts`` are ``pid``, ``rank`` and ``world_size`` for the header.

    Raises:
        OSError: no room.
    """
    facts = {
        "version": VERSION,
        "record": RECORD.format,
        "capacity": capacity,
        "data_offset": PAGE,
        "head_offset": HEAD_OFFSET,
        "lost_notes_offset": LOST_NOTES_OFFSET,
        "kinds": {name: number for number, name in enumerate(KINDS)},
        **facts,
        "rings_before": _rings_before(path),
    }
    return RingWriter(create_file(path, PAGE + capacity * SIZE, facts, LOST_NOTES_OFFSET), capacity)


def create_file(path: Path, size: int, facts: dict[str, Any], room: int) -> mmap.mmap:
    """Create the file at ``path``, which others see only once it is whole, and map it.

    It begins with ``facts`` and both clocks as JSON in less than ``room`` bytes.

    Raises:
        OSError: no room. A file that is not fully allocated would let a later store kill the
            training with SIGBUS on a full memory file system, hence ``posix_fallocate``.
    """
    facts = {**facts, "wall_ns": time.time_ns(), "monotonic_ns": time.perf_counter_ns()}
    header = json.dumps(facts).encode()
    if len(header) >= room:
        raise OSError(f"the header of {path} does not fit")
    temporary = path.with_name(f"{path.name}.new")
    file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _allocate(file, size)
        memory = mmap.mmap(file, size)
        memory[: len(header)] = header
        temporary.rename(path)
    except BaseException:
        # What a signal handler raises may come when it has its name already.
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)
    return memory


def _allocate(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    # Systems without it get their blocks by writing them.
    written = 0
    while written < size:
        written += os.pwrite(file, bytes(min(size - written, 1 << 20)), written)


def _rings_before(path: Path) -> int:
    """How many rings with records were at ``path``: a process that replaces itself (``exec``) keeps
    its number, and may do so before anybody has read the ring that it had."""
    try:
        with path.open("rb") as file:
            page = file.read(PAGE)
        header = json.loads(page.split(b"\0", 1)[0])
    except FileNotFoundError:
        return 0
    except ValueError:
        return 1
    return int(header.get("rings_before", 0)) + any(page[HEAD_OFFSET:])
