"""The page that the recorder and all agents of a host share."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

SIZE = 64
"""Bytes of the page, whose numbers are u64 in the machine's byte order."""

REQUESTS, STEP, COST, SAMPLE_EVERY, UNHEARD, DETAILS = range(6)
"""Indices of the numbers: window requests so far (counted by the recorder); training steps after
which all ranks open a window; highest cost of windows on any rank, ns; mean ns between samples of
the main thread's stack inside a window (set by the recorder); processes that could not write why
they record nothing; what windows are to record besides what the options say, a bit for each of
``DETAILS`` of the spool."""

NUMBER_BYTES = 8


def create_control_page(path: Path) -> None:
    """Create the page at ``path``, all zeros.

    Raises:
        OSError: it cannot be written.
    """
    path.write_bytes(bytes(SIZE))


class ControlPage:
    """Requests of viewers, and agreements of the ranks; empty if there is no page."""

    def __init__(self, path: Path) -> None:
        self._numbers = _numbers(path)
        self._seen = self._read(REQUESTS)
        self.step_address = 0
        """Address of ``step`` in memory, as long as this exists; 0 without a page."""
        if self._numbers is not None:
            number = ctypes.c_char.from_buffer(self._numbers, STEP * NUMBER_BYTES)
            self.step_address = ctypes.addressof(number)

    def request(self) -> None:
        """Ask the agents for one more window."""
        self._write(REQUESTS, self._read(REQUESTS) + 1)

    def requested(self) -> bool:
        """Whether a request has come since the last call (several count as one)."""
        count = self._read(REQUESTS)
        if count <= self._seen:
            return False
        self._seen = count
        return True

    @property
    def is_shared(self) -> bool:
        """Whether there is a page."""
        return self._numbers is not None

    @property
    def step(self) -> int:
        """Training steps after which all ranks open a window; 0 before any plan."""
        return self._read(STEP)

    def plan(self, step: int) -> None:
        """Have all ranks open a window after ``step`` training steps.

        If two ranks plan at once the later plan prevails, for both.
        """
        self._write(STEP, step)

    @property
    def cost(self) -> int:
        """Highest cost of windows on any rank so far, ns."""
        return self._read(COST)

    def raise_cost(self, cost: int) -> None:
        """Windows have cost this rank ``cost`` so far."""
        if cost > self.cost:
            self._write(COST, cost)

    @property
    def sample_every(self) -> int:
        """Mean ns between stack samples in an open window; 0 for no samples."""
        return self._read(SAMPLE_EVERY)

    def set_sample_every(self, every: int) -> None:
        """Have the agents sample the main thread's stack in their windows, ``every`` ns."""
        self._write(SAMPLE_EVERY, every)

    @property
    def details(self) -> int:
        """What windows are to record besides what the options say."""
        return self._read(DETAILS)

    def ask(self, details: int) -> None:
        """Have the agents record ``details`` too, from their next window on."""
        self._write(DETAILS, self._read(DETAILS) | details)

    @property
    def unheard(self) -> int:
        """Number of processes that could not write why they are not recorded."""
        return self._read(UNHEARD)

    def count_unheard(self) -> None:
        """Count a process that could not write a note, and has no ring: here is always room."""
        self._write(UNHEARD, self._read(UNHEARD) + 1)

    def close(self) -> None:
        """Unmap the page; it must not be used afterwards."""
        if self._numbers is not None:
            self._numbers.release()

    def _read(self, index: int) -> int:
        return 0 if self._numbers is None else self._numbers[index]

    def _write(self, index: int, number: int) -> None:
        if self._numbers is not None:
            self._numbers[index] = number


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
