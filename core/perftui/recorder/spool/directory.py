"""Makes the spool of a run in local memory, and removes those that dead recorders left."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

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
