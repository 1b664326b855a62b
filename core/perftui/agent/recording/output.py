"""Output of the agent for the recorder: the ring of intervals, and notes."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...wire.control_page import ControlPage
from ...wire.ring import HEAD_OFFSET, LOST_NOTES_OFFSET, PAGE, RECORD, VERSION
from ...wire.spool import Spool
from ..safety.signal_handlers import raised_by_handler


class Notes:
    """Appends to ``notes-<pid>.jsonl`` in the spool, each line with one ``write``.

    A training may lose the right or the room to write files while it runs (``setuid``,
    ``RLIMIT_FSIZE``, a full disk), and its steps go on all the same: they have their room already.
    """

    def __init__(self, spool: Path) -> None:
        self.path = Spool(spool).notes(os.getpid())
        self._warned: set[str] = set()
        self._lost = 0
        self._report_lost: Callable[[int], None] | None = None

    def begin(self, facts: dict[str, Any], report_lost: Callable[[int], None]) -> None:
        """Write the first note, of this process.

        From now on ``report_lost`` is called with the number of notes lost so far. Raises OSError
        if the spool cannot be written."""
        self._append("process", facts, -1, 0)
        self._report_lost = report_lost

    def write(self, kind: str, data: dict[str, Any], step: int = -1, duration: int = 0) -> None:
        """Append one note, timed now on the wall clock, or count it as lost."""
        try:
            self._append(kind, data, step, duration)
        except OSError as error:
            if raised_by_handler(error):
                raise
            self._lost += 1
            if self._report_lost is not None:
                self._report_lost(self._lost)
            elif self._lost == 1:
                # If the spool is gone, so is the recorder: there is nobody to report to.
                with suppress(OSError):
                    ControlPage(Spool(self.path.parent).control).unheard += 1

    def warn(self, message: str) -> None:
        """Write a warning, once."""
        if message not in self._warned:
            self._warned.add(message)
            self.write("warning", {"message": message})

    def _append(self, kind: str, data: dict[str, Any], step: int, duration: int) -> None:
        note = {
            "time": time.time_ns(),
            "kind": kind,
            "duration": duration,
            "step": step,
            "data": data,
        }
        line = json.dumps(note, default=str).encode() + b"\n"
        # Opened each time: notes are rare, and scripts that close or count descriptors would see
        # one that is kept open.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = os.open(self.path, flags, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)


pack_into, SIZE = RECORD.pack_into, RECORD.size

CAPACITY = 32768
"""1.5 MiB: 4 s of the fastest loop measured (1 ms steps of 7 records); container images often
limit ``/dev/shm`` to 64 MB for all processes together."""


class RingWriter:
    """Writes records into ``memory``, which holds a header page and ``capacity`` slots.

    A preallocated file, mapped shared: writing is a store to memory, needs no reader, and what was
    written survives the death of the process. ``wire.ring`` describes the format. One thread
    writes, here or in C (``fast_path.c``): only the memory knows how many records there are. An
    interrupt between the two stores loses that record and no other.
    """

    def __init__(self, memory: mmap.mmap, capacity: int) -> None:
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        """Where ``memory`` begins, as long as this writer exists."""
        self.capacity = capacity
        self._memory = memory
        self._head = memoryview(memory)[HEAD_OFFSET:PAGE].cast("Q")
        self._lost_notes = memoryview(memory)[LOST_NOTES_OFFSET:HEAD_OFFSET].cast("Q")

    def lose_notes(self, count: int) -> None:
        """Store how many notes could not be written so far: the header always has room."""
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

    ``facts`` are ``pid``, ``rank`` and ``world_size`` for the header. Raises OSError if there is no
    room."""
    facts = {"version": VERSION, "capacity": capacity, **facts, "rings_before": _rings_before(path)}
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
        # A signal handler may raise when the file already has its name.
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)
    return memory


def _allocate(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    # Systems without this call allocate blocks as they are written.
    written = 0
    while written < size:
        written += os.pwrite(file, bytes(min(size - written, 1 << 20)), written)


def _rings_before(path: Path) -> int:
    """Number of rings with records at ``path``: a process that replaces itself (``exec``) keeps its
    number, perhaps before anybody has read its first ring."""
    try:
        with path.open("rb") as file:
            page = file.read(PAGE)
        header = json.loads(page.split(b"\0", 1)[0])
    except FileNotFoundError:
        return 0
    except ValueError:
        return 1
    return int(header.get("rings_before", 0)) + any(page[HEAD_OFFSET:])
