"""The spool of a run in local memory, and the agents' rings and notes in it."""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perftui.run.files import DAMAGE
from perftui.run.journal import LineTail
from perftui.wire.control_page import ControlPage, create_control_page
from perftui.wire.ring import HEAD, HEAD_OFFSET, KINDS, LOST_NOTES_OFFSET, PAGE, RECORD, VERSION
from perftui.wire.spool import Spool

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a private directory is made inside it

ROOM = 512 * 1024 * 1024
"""Free bytes that shared memory must have: rings of 1.5 MiB and windows of some 10 MB each, which
data-loader workers must not miss (a container has 64 MB by default)."""

PREFIX = "perftui-"
OWNER = "owner"


class SpoolDirectory:
    """A private spool; ``remove`` it when the training has ended.

    It lies in shared memory where there is room: the training writes its ring there, and pages of a
    file on a disk make the writer wait for write-back. Raises OSError if there is no room for it.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = parent or _parent()
        _sweep(parent)
        self.spool = Spool(Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)))
        try:
            # Renamed only once it is locked, so that nobody finds it unlocked.
            unnamed = self.spool.root / f".{OWNER}"
            self._owner = _lock(unnamed)
            unnamed.rename(self.spool.root / OWNER)
            create_control_page(self.spool.control)
            self.control = ControlPage(self.spool.control)
            """The page that the agents of this run read."""
        except BaseException:
            shutil.rmtree(self.spool.root, ignore_errors=True)
            raise

    def remove(self) -> None:
        """Remove the spool; agents that still live write into files without a name."""
        self.control.close()
        shutil.rmtree(self.spool.root, ignore_errors=True)
        if self._owner is not None:
            os.close(self._owner)


def _parent() -> Path:
    with suppress(OSError):
        if shutil.disk_usage(SHARED_MEMORY).free >= ROOM and os.access(SHARED_MEMORY, os.W_OK):
            return SHARED_MEMORY
    return Path(tempfile.gettempdir())


def _lock(path: Path) -> int | None:
    """Lock ``path`` for the life of this process; None if another one holds the lock."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def _sweep(parent: Path) -> None:
    """Remove our own spools whose recorder is gone: a lock shows it, across containers too."""
    for root in parent.glob(f"{PREFIX}*"):
        owner = root / OWNER
        with suppress(OSError):
            if owner.is_file() and root.lstat().st_uid == os.getuid():
                lock = _lock(owner)
                if lock is not None:
                    shutil.rmtree(root, ignore_errors=True)
                    os.close(lock)


class Note(msgspec.Struct, frozen=True):
    """One line of an agent's notes."""

    time: int
    kind: str
    duration: int = 0
    step: int = -1
    data: dict[str, Any] = msgspec.field(default_factory=dict)


MOST_BYTES = 1 << 20
"""Bytes of a notes file that are read: the spool is memory, and a training may write for ever."""


class NotesTail:
    """Reads the notes added since the last ``poll``; ``damaged`` counts lines that are no notes.

    A file that has grown is put aside, and the agent begins another. It stays until the next one is
    put aside: an agent that had opened it then may still write to it.
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._tail = LineTail(path)
        self._aside: LineTail | None = None
        self._damaged = 0
        self._decoder = msgspec.json.Decoder(Note)

    @property
    def damaged(self) -> int:
        """Lines that were skipped."""
        aside = self._aside.skipped if self._aside else 0
        return self._damaged + aside + self._tail.skipped

    def poll(self) -> list[Note]:
        """Notes added since the last poll; none while there is no file. Raises OSError if the file
        is there and cannot be read."""
        lines = self._aside.poll() if self._aside else []
        lines += self._tail.poll()
        if self._tail.position >= self._most_bytes:
            self._damaged += self._aside.skipped if self._aside else 0
            self._tail.path = self.path.replace(self.path.with_suffix(".aside"))
            self._aside, self._tail = self._tail, LineTail(self.path)
        return [note for line in lines if (note := self._decode(line))]

    def _decode(self, line: bytes) -> Note | None:
        try:
            return self._decoder.decode(line)
        except DAMAGE:
            self._damaged += 1
            return None


class RingHeader(msgspec.Struct, frozen=True):
    """The agent's description of itself at the start of a ring."""

    version: int
    capacity: int
    pid: int
    rank: int
    world_size: int
    wall_ns: int
    """``time.time_ns()`` at the anchor."""
    monotonic_ns: int
    """``time.perf_counter_ns()`` at the same instant; records count from this clock."""
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
            self.header = msgspec.json.decode(self._map[:PAGE].split(b"\0", 1)[0], type=RingHeader)
        except DAMAGE as error:
            raise RingError(f"{path}: {error}") from error
        if self.header.version != VERSION:
            raise RingError(f"{path}: a ring of another version ({self.header.version})")
        room = (len(self._map) - PAGE) // RECORD.size
        if not 1 <= self.header.capacity <= room:
            raise RingError(f"{path}: shorter than its header says")
        self._clock = self.header.wall_ns - self.header.monotonic_ns
        self._next = 0
        self.lost = 0
        """Records overwritten before they were read."""

    @property
    def lost_notes(self) -> int:
        """Notes that the agent could not write so far."""
        return int(HEAD.unpack_from(self._map, LOST_NOTES_OFFSET)[0])

    def poll(self, limit: int = 1 << 20) -> list[Record]:
        """The records written since the last poll, in order, at most ``limit``."""
        head = self._head()
        first = max(self._next, head - self.header.capacity + 1)
        last = max(self._next, min(head, first + limit))
        records = [record for n in range(first, last) if (record := self._record(n)) is not None]
        # The oldest slots may have been overwritten during the copy, and the slot of the record
        # being written may be half new: neither is trusted.
        horizon = self._head() - self.header.capacity
        trusted = [record for record in records if record.sequence > horizon]
        self.lost += last - self._next - len(trusted)
        self._next = last
        return trusted

    def is_replaced(self) -> bool:
        """Whether another ring is now at this one's path."""
        try:
            return not os.path.samestat(self._status, self.path.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Unmap the file."""
        self._map.close()

    def _head(self) -> int:
        return int(HEAD.unpack_from(self._map, HEAD_OFFSET)[0])

    def _record(self, number: int) -> Record | None:
        offset = PAGE + (number % self.header.capacity) * RECORD.size
        values = RECORD.unpack_from(self._map, offset)
        sequence, start, duration, value, extra, step, kind, flag = values
        if sequence != number or kind >= len(KINDS):
            return None
        at = start + self._clock
        return Record(sequence, at, duration, value, extra, step, KINDS[kind], flag)
