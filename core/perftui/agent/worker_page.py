"""The page on which a worker of a data loader, or the training itself, counts its batches.

A preallocated file of its own, mapped shared, as the ring is. Its format is documented where it is
read (``perftui.run.worker_page``); this side repeats it.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from pathlib import Path
from threading import Lock
from time import perf_counter_ns
from typing import Any

VERSION = 1
PAGE = 4096
RECORD = struct.Struct("<9q")
pack_into = RECORD.pack_into
RECORD_OFFSET = 2048

IDLE, FETCH, COLLATE, ENDED = range(4)

BRIEF_NS = 5_000_000
"""In the training itself a batch that follows one that took less is stored once it is made, and not
at each stage: that would hold up steps that take no longer themselves."""


class WorkerPage:
    """Counts what becomes of batches; nothing is written before ``open`` or after ``close``."""

    def __init__(self) -> None:
        self.lock = Lock()
        """Held while a batch is made: one that is made for another one, or beside it, is not
        counted."""
        self.stage = IDLE
        self.is_open = False
        """Whether what is counted is written anywhere."""
        self._memory: mmap.mmap | None = None
        self._may_be_brief = False
        self._is_brief = False
        self._number = 0
        self._since = 0
        self._began = 0
        self._batches = 0
        self._sized = 0
        self._bytes = 0
        self._fetch = 0
        self._collate = 0

    def open(self, spool: Path, facts: dict[str, Any]) -> None:
        """Begin a new page in ``spool``; ``facts`` are the ``owner``, ``worker`` and ``loader``.

        Raises:
            OSError: no room. A file that is not fully allocated would let a later store kill the
                process with SIGBUS on a full memory file system.
        """
        pid, now = os.getpid(), perf_counter_ns()
        header = {
            "version": VERSION,
            "record": RECORD.format,
            "record_offset": RECORD_OFFSET,
            "pid": pid,
            **facts,
            "wall_ns": time.time_ns(),
            "monotonic_ns": now,
        }
        memory = _create(spool, f"loader-{facts['owner']}-{pid}-{now}", header)
        self.stage = IDLE
        self._memory, self.is_open = memory, True
        self._may_be_brief, self._is_brief = facts["worker"] < 0, False
        self._forget()
        self.mark(IDLE)

    def mark(self, stage: int) -> None:
        """What goes on from now on."""
        now = perf_counter_ns()
        before, self.stage = self.stage, stage
        if before == FETCH:
            self._fetch += now - self._since
        elif before == COLLATE:
            self._collate += now - self._since
        else:
            self._began = now
        self._since = now
        if not self._is_brief:
            self._store()

    def count(self, size: int) -> None:
        """A batch of ``size`` bytes is made, -1 where that is not known."""
        self._batches += 1
        if size >= 0:
            self._sized += 1
            self._bytes += size
        self._is_brief = self._may_be_brief and self._since - self._began < BRIEF_NS
        self._store()

    def give_up(self) -> None:
        """The batch that was being made has failed."""
        self._is_brief = False
        self.mark(IDLE)

    def close(self) -> None:
        """Write no more, and say so."""
        self._is_brief = False
        self.mark(ENDED)
        self._memory, self.is_open = None, False

    def leave_to_parent(self) -> None:
        """This is a forked child: the page is its parent's."""
        self.lock = Lock()
        self._memory, self.is_open = None, False

    def _forget(self) -> None:
        self._number = self._since = self._began = 0
        self._batches = self._sized = self._bytes = self._fetch = self._collate = 0

    def _store(self) -> None:
        memory = self._memory
        if memory is None:
            return
        self._number = number = self._number + 1
        # A reader that finds two numbers, or another record at a second look, looks again.
        pack_into(
            memory,
            RECORD_OFFSET,
            number,
            self._batches,
            self._sized,
            self._bytes,
            self._fetch,
            self._collate,
            self.stage,
            self._since,
            number,
        )


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
