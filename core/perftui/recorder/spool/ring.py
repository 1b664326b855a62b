"""Reads the ring that an agent writes: ``wire.ring`` describes the format."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from perftui.run.files import DAMAGE
from perftui.wire.ring import HEAD, PAGE, RECORD


class RingHeader(msgspec.Struct, frozen=True):
    """What the agent writes about itself at the start of a ring."""

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
    lost_notes_offset: int
    rings_before: int
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
            if self._status.st_size < PAGE:
                raise RingError(f"{path} is too short")
            self._map = mmap.mmap(file, 0, prot=mmap.PROT_READ)
        finally:
            os.close(file)
        try:
            text = self._map[:PAGE].split(b"\0", 1)[0]
            self.header = msgspec.json.decode(text, type=RingHeader)
        except DAMAGE as error:
            raise RingError(f"{path}: {error}") from error
        self._check()
        self._kinds = {number: name for name, number in self.header.kinds.items()}
        self._clock = self.header.wall_ns - self.header.monotonic_ns
        self._next = 0
        self.lost = 0
        """Records overwritten before they were read."""

    def _check(self) -> None:
        header = self.header
        if header.record != RECORD.format:
            raise RingError(f"{self.path}: records of another version ({header.record})")
        needed = header.data_offset + header.capacity * RECORD.size
        room = len(self._map)
        counters = (header.head_offset, header.lost_notes_offset)
        fit = all(0 <= offset <= room - HEAD.size for offset in counters)
        if header.capacity < 1 or header.data_offset < 0 or needed > room or not fit:
            raise RingError(f"{self.path}: shorter than its header says")

    @property
    def lost_notes(self) -> int:
        """Notes of the agent that could not be written so far."""
        return int(HEAD.unpack_from(self._map, self.header.lost_notes_offset)[0])

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
        return int(HEAD.unpack_from(self._map, self.header.head_offset)[0])

    def _record(self, number: int) -> Record | None:
        offset = self.header.data_offset + (number % self.header.capacity) * RECORD.size
        sequence, start, duration, value, extra, step, kind, flag = RECORD.unpack_from(
            self._map, offset
        )
        if sequence != number:
            return None
        name = self._kinds.get(kind, "")
        return Record(sequence, start + self._clock, duration, value, extra, step, name, flag)
