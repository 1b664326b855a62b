"""The page that the recorder and all agents of a host share."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

REQUESTS, STEP, COST, LOOKS, UNHEARD = 0, 8, 16, 24, 32
"""Offsets: requests made so far; training steps after which all ranks open a window; the most
that windows have cost one of them, ns; mean ns between looks at the thread of a window; processes
that could not write down why they record nothing."""

WORD = 8
SIZE = 40


class Control:
    """Requests of viewers, and what the ranks agree on. Without a page there is nothing of it."""

    def __init__(self, spool: Path) -> None:
        self._words = _words(spool / "control")
        self._seen = self._read(REQUESTS)
        self.step_address = 0
        """Where ``step`` lies in memory, as long as this exists; 0 without a page."""
        if self._words is not None:
            self.step_address = ctypes.addressof(ctypes.c_char.from_buffer(self._words, STEP))

    def requested(self) -> bool:
        """Whether a request has come since the last call (several count as one)."""
        count = self._read(REQUESTS)
        if count <= self._seen:
            return False
        self._seen = count
        return True

    @property
    def is_shared(self) -> bool:
        """Whether there is a page to agree on anything."""
        return self._words is not None

    @property
    def step(self) -> int:
        """The number of training steps after which all ranks open a window; 0 before any plan."""
        return self._read(STEP)

    def plan(self, step: int) -> None:
        """Have all ranks open a window after ``step`` training steps.

        Of two ranks that plan at once the later one prevails, for both.
        """
        self._write(STEP, step)

    @property
    def cost(self) -> int:
        """The most that windows have cost any rank so far, ns."""
        return self._read(COST)

    def raise_cost(self, cost: int) -> None:
        """Windows have cost this rank ``cost`` so far."""
        if cost > self.cost:
            self._write(COST, cost)

    @property
    def looks_every(self) -> int:
        """Mean ns between looks at the thread of an open window; 0 where none are to be made."""
        return self._read(LOOKS)

    def count_unheard(self) -> None:
        """This process could not write a note, and has no ring: here is room always."""
        self._write(UNHEARD, self._read(UNHEARD) + 1)

    def _read(self, offset: int) -> int:
        return 0 if self._words is None else self._words[offset // WORD]

    def _write(self, offset: int, word: int) -> None:
        if self._words is not None:
            self._words[offset // WORD] = word


def _words(path: Path) -> memoryview[int] | None:
    """The page as words that are stored at once: other processes read them meanwhile, and
    ``struct`` would clear a word before it writes there."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return memoryview(mmap.mmap(file, SIZE)).cast("Q")
    except ValueError:
        # Shorter than what is to be read: not a control page.
        return None
    finally:
        os.close(file)
