"""The page that the recorder and all agents of a host share."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

SIZE = 64
"""Bytes of the page, whose numbers are u64 in the machine's byte order."""

NUMBER_BYTES = 8

REQUESTS, STEP, COST, SAMPLE_EVERY, UNHEARD, DETAILS = range(6)


def create_control_page(path: Path) -> None:
    """Create the page at ``path``, all zeros. Raises OSError if it cannot be written."""
    path.write_bytes(bytes(SIZE))


class Number:
    """One number of the page; 0 where there is no page, and what is set is lost."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __get__(self, page: ControlPage, owner: type) -> int:
        return 0 if page.numbers is None else page.numbers[self.index]

    def __set__(self, page: ControlPage, value: int) -> None:
        if page.numbers is not None:
            page.numbers[self.index] = value


class ControlPage:
    """Requests of viewers, and agreements of the ranks; empty if there is no page."""

    requests = Number(REQUESTS)
    """Window requests so far, counted by the recorder."""
    step = Number(STEP)
    """Training steps after which all ranks open a window; 0 before any plan. If two ranks plan at
    once the later plan prevails, for both."""
    cost = Number(COST)
    """Highest cost of windows on any rank so far, ns."""
    sample_every = Number(SAMPLE_EVERY)
    """Mean ns between samples of the main thread's stack in an open window; 0 for no samples."""
    unheard = Number(UNHEARD)
    """Processes that could not write why they record nothing, and have no ring: here is always
    room."""
    details = Number(DETAILS)
    """What windows are to record besides what the options say, from the next one on; a bit for each
    of ``DETAILS`` of the spool."""

    def __init__(self, path: Path) -> None:
        self.numbers = _numbers(path)
        """The page; None if there is none."""
        self._seen = self.requests
        self.step_address = 0
        """Address of ``step`` in memory, as long as this exists; 0 without a page."""
        if self.numbers is not None:
            number = ctypes.c_char.from_buffer(self.numbers, STEP * NUMBER_BYTES)
            self.step_address = ctypes.addressof(number)

    def requested(self) -> bool:
        """Whether a request has come since the last call (several count as one)."""
        seen, self._seen = self._seen, max(self.requests, self._seen)
        return self._seen > seen

    def close(self) -> None:
        """Unmap the page; it must not be used afterwards."""
        if self.numbers is not None:
            self.numbers.release()


def _numbers(path: Path) -> memoryview[int] | None:
    """The page as words that are stored atomically: other processes read them meanwhile, and
    ``struct`` would clear a word before it writes there."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return memoryview(mmap.mmap(file, SIZE)).cast("Q")
    except ValueError:
        # Shorter than all numbers together: not a control page.
        return None
    finally:
        os.close(file)
