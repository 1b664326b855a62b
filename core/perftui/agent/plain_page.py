"""The counting of batches on a worker's page, as ``page.c`` does it where that is compiled."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

RECORD = struct.Struct("<9q")

IDLE, FETCH, COLLATE, ENDED = range(4)

BRIEF_NS = 5_000_000
"""In the training itself a batch that follows one that took less is stored once it is made, and not
at each stage: that would hold up steps that take no longer themselves."""


class PlainPage:
    """Sums up what becomes of batches, and stores it at ``address``, if that is not 0."""

    batch_bytes: Callable[[Any], int]
    """How many bytes a batch holds, -1 where that is not known."""

    def __init__(self) -> None:
        self.may_be_brief = False
        self.is_brief = False
        self.stage = IDLE
        self.number = 0
        """Of the record that was stored last."""
        self.since = 0
        """When the stage began, and ``began`` the batch."""
        self.began = 0
        self.batches = 0
        self.sized = 0
        self.bytes = 0
        self.fetch = 0
        self.collate = 0
        self.address = 0

    def mark(self, stage: int, /) -> None:
        """What goes on from now on."""
        now = perf_counter_ns()
        if self.stage == FETCH:
            self.fetch += now - self.since
        elif self.stage == COLLATE:
            self.collate += now - self.since
        else:
            self.began = now
        self.stage, self.since = stage, now
        if not self.is_brief:
            self._store()

    def count(self, batch: Any, /) -> None:
        """``batch`` is made."""
        self.mark(IDLE)
        size = self.batch_bytes(batch)
        self.batches += 1
        if size >= 0:
            self.sized += 1
            self.bytes += size
        self.is_brief = self.may_be_brief and self.since - self.began < BRIEF_NS
        self._store()

    def _store(self) -> None:
        if not self.address:
            return
        self.number += 1
        # A reader that finds two numbers, or another record at a second look, looks again.
        sums = self.batches, self.sized, self.bytes, self.fetch, self.collate
        record = RECORD.pack(self.number, *sums, self.stage, self.since, self.number)
        ctypes.memmove(self.address, record, RECORD.size)
