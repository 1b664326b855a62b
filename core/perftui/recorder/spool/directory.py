"""Makes the spool of a run in local memory, and removes those that dead recorders left."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from perftui.run.files import DAMAGE
from perftui.run.journal import LineTail
from perftui.wire.control_page import ControlPage, create_control_page
from perftui.wire.spool import Spool

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a private directory is made inside it

ROOM = 512 * 1024 * 1024
"""Free bytes that shared memory must have: rings of 1.5 MiB and windows of some 10 MB each, which
data-loader workers must not miss (a container has 64 MB by default)."""

PREFIX = "perftui-"
OWNER = "owner"


class SpoolDirectory:
    """A private spool; ``remove`` it when the training has ended.

    It lies in shared memory where there is room: the training writes its ring there, and pages of
    a file on a disk make the writer wait for write-back.

    Raises:
        OSError: there is no room for it.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = parent or _parent()
        _sweep(parent)
        self.spool = Spool(Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)))
        try:
            self._fill()
        except BaseException:
            shutil.rmtree(self.spool.root, ignore_errors=True)
            raise

    def _fill(self) -> None:
        # Named only once it is locked, so that nobody finds it unlocked.
        unnamed = self.spool.root / f".{OWNER}"
        self._owner = _lock(unnamed)
        unnamed.rename(self.spool.root / OWNER)
        create_control_page(self.spool.control)
        self.control = ControlPage(self.spool.control)
        """The page that the agents of this run read."""

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
    """Hold a lock on ``path`` for as long as this process lives; None where another holds it."""
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
    """Reads the notes added since the last ``poll``; ``damaged`` counts those that are none.

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
        """Lines that were left out."""
        aside = self._aside.skipped if self._aside else 0
        return self._damaged + aside + self._tail.skipped

    def poll(self) -> list[Note]:
        """Notes added since the last poll; none while there is no file.

        Raises:
            OSError: the file is there and cannot be read.
        """
        lines = self._aside.poll() if self._aside else []
        lines += self._tail.poll()
        if self._tail.position >= self._most_bytes:
            self._put_aside()
        return [note for line in lines if (note := self._decode(line))]

    def _put_aside(self) -> None:
        if self._aside is not None:
            self._damaged += self._aside.skipped
        self._tail.path = self.path.replace(self.path.with_suffix(".aside"))
        self._aside, self._tail = self._tail, LineTail(self.path)

    def _decode(self, line: bytes) -> Note | None:
        try:
            return self._decoder.decode(line)
        except DAMAGE:
            self._damaged += 1
            return None
