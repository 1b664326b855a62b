"""The page on which a worker of a data loader, or the training itself, counts its batches.

A preallocated file of its own, mapped shared, as the ring is. Its format is documented where it is
read (``perftui.run.worker_page``); this side repeats it.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from pathlib import Path
from threading import Lock
from time import perf_counter_ns
from typing import Any

VERSION = 1
PAGE = 4096
RECORD = "<9q"
RECORD_OFFSET = 2048
RECORD_SIZE = 72

NUMBER, BATCHES, SIZED, BYTES, SPENT, STAGE, SINCE, AGAIN = 0, 1, 2, 3, 3, 6, 7, 8
"""Cells of the record; time spent in a stage is in cell ``SPENT`` + stage."""

IDLE, FETCH, COLLATE, ENDED = range(4)


class WorkerPage:
    """Counts what becomes of batches; nothing is written before ``open`` or after ``close``."""

    def __init__(self) -> None:
        self.lock = Lock()
        """Held while a batch is made: one that is made for another one, or beside it, is not
        counted."""
        self.stage = IDLE
        self._since = self._number = 0
        self._cells: memoryview | None = None

    @property
    def is_open(self) -> bool:
        """Whether what is counted is written anywhere."""
        return self._cells is not None

    def open(self, spool: Path, facts: dict[str, Any]) -> None:
        """Begin a new page in ``spool``; ``facts`` are the ``owner``, ``worker`` and ``loader``.

        Raises:
            OSError: no room. A file that is not fully allocated would let a later store kill the
                process with SIGBUS on a full memory file system.
        """
        pid, now = os.getpid(), perf_counter_ns()
        header = {
            "version": VERSION,
            "record": RECORD,
            "record_offset": RECORD_OFFSET,
            "pid": pid,
            **facts,
            "wall_ns": time.time_ns(),
            "monotonic_ns": now,
        }
        memory = _create(spool, f"loader-{facts['owner']}-{pid}-{now}", header)
        self._number, self.stage = 0, IDLE
        self._cells = memoryview(memory)[RECORD_OFFSET:][:RECORD_SIZE].cast("q")
        self.mark(IDLE)

    def mark(self, stage: int) -> None:
        """What goes on from now on."""
        cells = self._cells
        if cells is None:
            return
        now = perf_counter_ns()
        before = self.stage
        # A reader that finds two numbers has come between them, and looks again.
        cells[NUMBER] = self._number = number = self._number + 1
        if before != IDLE:
            cells[SPENT + before] += now - self._since
        cells[STAGE] = self.stage = stage
        cells[SINCE] = self._since = now
        cells[AGAIN] = number

    def count(self, size: int) -> None:
        """A batch of ``size`` bytes is made, -1 where that is not known."""
        cells = self._cells
        if cells is None:
            return
        cells[NUMBER] = self._number = number = self._number + 1
        cells[BATCHES] += 1
        if size >= 0:
            cells[SIZED] += 1
            cells[BYTES] += size
        cells[AGAIN] = number

    def close(self) -> None:
        """Write no more, and say so."""
        self.mark(ENDED)
        self._cells = None

    def leave_to_parent(self) -> None:
        """This is a forked child: the page is its parent's."""
        self.lock = Lock()
        self._cells = None


def _create(spool: Path, name: str, header: dict[str, Any]) -> mmap.mmap:
    text = json.dumps(header).encode()
    temporary = spool / f"{name}.new"
    file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        # All of it: these bytes are allocated, whatever the file system does for a size alone.
        os.pwrite(file, text.ljust(PAGE, b"\0"), 0)
        if os.fstat(file).st_size < PAGE:
            raise OSError(f"no room for {temporary}")
        memory = mmap.mmap(file, PAGE)
        temporary.rename(spool / name)
    except BaseException:
        temporary.unlink()
        raise
    finally:
        os.close(file)
    return memory
