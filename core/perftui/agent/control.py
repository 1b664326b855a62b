"""The page through which a viewer asks for a window."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

REQUESTS = struct.Struct("<Q")


class Control:
    """The requests made so far, compared at step boundaries; without a page there are none."""

    def __init__(self, spool: Path) -> None:
        self._memory = _map(spool / "control")
        self._seen = self._count()

    def requested(self) -> bool:
        """Whether a request has come since the last call (several count as one)."""
        count = self._count()
        if count <= self._seen:
            return False
        self._seen = count
        return True

    def _count(self) -> int:
        if self._memory is None:
            return 0
        count: int = REQUESTS.unpack_from(self._memory, 0)[0]
        return count


def _map(path: Path) -> mmap.mmap | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return mmap.mmap(file, REQUESTS.size, prot=mmap.PROT_READ)
    except ValueError:
        # Shorter than a counter: not a control page.
        return None
    finally:
        os.close(file)
