"""Reads the ring that the agent writes: a memory-mapped file that describes itself.

Layout: a header page of JSON, NUL-padded to ``data_offset`` bytes, with the fields of
``RingHeader``; at ``head_offset`` inside it, the number of records ever written as a
little-endian unsigned 64-bit integer, stored after each record, and at ``lost_notes_offset`` the
number of the agent's notes that could not be written; from ``data_offset`` on,
``capacity`` slots of ``record`` (a ``struct`` format). Record number n (from 0) is in slot
``n % capacity`` and holds n in its first field, so that a slot overwritten during the copy shows.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple

import msgspec

from perftui.run.damage import DAMAGE

RECORD = "<QqqqqIBBxx"
"""sequence, start (monotonic ns), duration (ns), value, extra, step, kind, flag."""

HEAD = struct.Struct("<Q")

HEADER_PAGE = 4096
"""Bytes within which the JSON of the header ends."""

PROFILED_FLAG, EVAL_FLAG, INFER_FLAG, DEVICE_FLAG = 1, 2, 4, 8
"""Bits of ``flag`` in a ``step`` record; without EVAL and INFER it is a training step. DEVICE: its
``device_phases`` will come, unless the process ends or the GPU falls far behind."""

KINDS = (
    "step",
    "input_wait",
    "loader_start",
    "forward",
    "backward",
    "optimizer",
    "profiler",
    "gc",
    "memory",
    "memory_peak",
    "input_cpu",
    "device_phases",
    "memory_trouble",
)
"""Kinds of records, written when the interval has finished, on the thread that trains.

``step``: ``value`` micro batches, ``extra`` the agent's own cost in ns, ``step`` its index.
``input_wait``: ``value`` batches that were ready when the wait began, or -1. ``gc``: ``value`` the
generation. ``memory``, ``memory_peak``: instants at the end of the step whose index ``step`` is,
before or after its own record; ``value`` allocated (or highest allocated) bytes, ``extra`` of
``memory`` reserved bytes.
``input_cpu``: an instant, ``value`` the CPU time in ns that the thread used in an ``input_wait``
that has just finished, written only where the thread fetches the batch itself.
``device_phases``: of the step whose index ``step`` is, written after its own record, in the order
of the steps: ``duration`` the ns that its forward took on the GPU, ``value`` its backward,
``extra`` its optimizer. ``memory_trouble``: an instant beside ``memory`` of the same step;
``value`` the allocations that were tried again since the last ``memory``, ``extra`` those that
failed; without it there were none. The others carry nothing more. Intervals may lie inside one
another; the reader makes them exclusive.
"""


class RingHeader(msgspec.Struct, frozen=True):
    """What the agent says of itself at the start of a ring."""

    version: int
    record: str
    capacity: int
    data_offset: int
    head_offset: int
    kinds: dict[str, int]
    pid: int
    rank: int
    world_size: int
    wall_ns: int
    """``time.time_ns()`` at the anchor."""
    monotonic_ns: int
    """``time.perf_counter_ns()`` at the same instant; records count from this clock."""
    lost_notes_offset: int = -1
    """-1 where the agent does not count them."""
    rings_before: int = 0
    """Rings that the process had before it replaced itself (``exec``)."""


class Record(NamedTuple):
    """One finished interval, times on the wall clock."""

    sequence: int
    start: int
    duration: int
    value: int
    extra: int
    step: int
    kind: str
    flag: int


class RingError(ValueError):
    """The file is not a ring this version can read."""


class RingReader:
    """Follows one ring from another process; it never writes and never waits.

    Raises:
        RingError: the file is not (yet) a ring.
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._status = os.fstat(file)
            if self._status.st_size < HEADER_PAGE:
                raise RingError(f"{path} is too short")
            self._map = mmap.mmap(file, 0, prot=mmap.PROT_READ)
        finally:
            os.close(file)
        try:
            text = self._map[:HEADER_PAGE].split(b"\0", 1)[0]
            self.header = msgspec.json.decode(text, type=RingHeader)
        except DAMAGE as error:
            raise RingError(f"{path}: {error}") from error
        self._check()
        self._struct = struct.Struct(self.header.record)
        self._kinds = {number: name for name, number in self.header.kinds.items()}
        self._clock = self.header.wall_ns - self.header.monotonic_ns
        self._next = 0
        self.lost = 0
        """Records overwritten before they were read."""

    def _check(self) -> None:
        header = self.header
        if header.record != RECORD:
            raise RingError(f"{self.path}: records of another version ({header.record})")
        needed = header.data_offset + header.capacity * struct.calcsize(RECORD)
        room = len(self._map)
        head_fits = 0 <= header.head_offset <= room - HEAD.size
        head_fits &= -1 <= header.lost_notes_offset <= room - HEAD.size
        if header.capacity < 1 or header.data_offset < 0 or needed > room or not head_fits:
            raise RingError(f"{self.path}: shorter than its header says")

    @property
    def lost_notes(self) -> int:
        """Notes of the agent that could not be written so far."""
        offset = self.header.lost_notes_offset
        return 0 if offset < 0 else int(HEAD.unpack_from(self._map, offset)[0])

    def poll(self, limit: int = 1 << 20) -> list[Record]:
        """The records written since the last poll, in order, at most ``limit``."""
        head = self._head()
        first = max(self._next, head - self.header.capacity + 1)
        last = max(self._next, min(head, first + limit))
        records = [record for n in range(first, last) if (record := self._record(n)) is not None]
        # The oldest slots may have been overwritten while they were copied, and the slot of the
        # record that is being written now may be half new: neither is trusted.
        horizon = self._head() - self.header.capacity
        kept = [record for record in records if record.sequence > horizon]
        self.lost += last - self._next - len(kept)
        self._next = last
        return kept

    def is_replaced(self) -> bool:
        """Whether another ring is now at the path of this one."""
        try:
            return not os.path.samestat(self._status, self.path.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Unmap the file."""
        self._map.close()

    def _head(self) -> int:
        head: int = HEAD.unpack_from(self._map, self.header.head_offset)[0]
        return head

    def _record(self, number: int) -> Record | None:
        offset = self.header.data_offset + (number % self.header.capacity) * self._struct.size
        sequence, start, duration, value, extra, step, kind, flag = self._struct.unpack_from(
            self._map, offset
        )
        if sequence != number:
            return None
        name = self._kinds.get(kind, "")
        return Record(sequence, start + self._clock, duration, value, extra, step, name, flag)
