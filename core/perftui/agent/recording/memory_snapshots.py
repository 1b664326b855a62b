"""Snapshots of GPU memory by torch itself: at its peak, and when it runs out."""

from __future__ import annotations

import os
import pickle  # noqa: TID251 - torch's format; written here, never loaded
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns
from typing import Any, BinaryIO

from .output import Notes

MOST_EVENTS = 30_000
"""Allocations and releases that torch remembers: some steps of a large model. The peak lies among
them. torch asks for some KB of memory for each in a snapshot."""

MOST_BYTES = 256 * 1024 * 1024
"""Most bytes of one file: it passes through memory that the training needs."""

BUDGET = 100
"""A snapshot may cost one part in this of the time since the last one."""

LEAST_PAUSE_NS = 10_000_000_000

MARGIN = 20
"""A peak counts as new if it is higher by one part in this."""

MOST_FAILURES = 3
"""Snapshots of memory that ran out: a script that searches for its largest batch runs out over and
over."""

MOST_WAITING = 2
"""Snapshots in the spool that the recorder has not taken."""

PEAK, FAILURE = "peak", "out of memory"


class TooLargeError(ValueError):
    """The snapshot would take more than ``MOST_BYTES``."""


class MemorySnapshots:
    """Has torch record allocations from the first use of CUDA on.

    torch takes 2 us for each allocation then, to remember the Python lines it came from. Before
    CUDA is used nothing is asked of torch: that alone would make a context, which a script that
    forks cannot have.
    """

    def __init__(self, torch: Any, spool: Path, share_of_time: int = BUDGET) -> None:
        self._torch = torch
        self._spool = spool
        self._share = share_of_time
        self._owner = os.getpid()
        """The process that records; a child that it forks cannot use CUDA."""
        self._is_recording = False
        self._is_over = False
        self._peak = 0
        self._step = -1
        self._not_before = 0
        self._failures = 0
        self._number = 0
        self._notes = Notes(spool)

    def arm(self) -> None:
        """Begin as soon as the script uses CUDA, at once if it does."""
        self._torch.cuda._lazy_call(self._begin)

    def observe(self, peak: int, step: int, now: int) -> bool:
        """Step ``step`` has ended, and ``peak`` bytes are the most that were ever allocated.

        Keeps a snapshot of a new peak if one is due; returns whether it did.
        """
        self._step = step + 1
        if not self._is_recording or self._is_over or now < self._not_before:
            return False
        if peak <= self._peak + self._peak // MARGIN:
            return False
        self._peak = peak
        self._keep(PEAK, peak)
        after = perf_counter_ns()
        self._not_before = after + max(self._share * (after - now), LEAST_PAUSE_NS)
        return True

    def close(self) -> None:
        """The process ends."""
        if self._is_over or os.getpid() != self._owner:
            return
        self._is_over = True
        if not self._is_recording:
            self._notes.warn("there is no GPU memory to snapshot: the script has not used CUDA")

    def _begin(self) -> None:
        # torch runs this within the script's first use of CUDA, which must succeed.
        try:
            if self._is_over:
                return
            self._owner, self._notes = os.getpid(), Notes(self._spool)
            self._torch.cuda.memory._record_memory_history(
                enabled="all", stacks="python", max_entries=MOST_EVENTS
            )
            self._torch._C._cuda_attach_out_of_memory_observer(self._ran_out)
            self._is_recording = True
        except Exception as error:  # noqa: BLE001 - see above
            self._is_over = True
            self._notes.warn(f"GPU memory snapshots failed: {type(error).__name__}: {error}")

    def _ran_out(self, device: int, size: int, *_: Any) -> None:
        """torch calls this before it raises: to the script's handler nothing may have changed."""
        if self._is_over or os.getpid() != self._owner or self._failures >= MOST_FAILURES:
            return
        self._failures += 1
        with suppress(Exception):
            self._keep(FAILURE, self._peak, asked=size, device=device)

    def _keep(self, reason: str, peak: int, **more: int) -> None:
        if sum(1 for _ in self._spool.glob(f"memory-{self._owner}-*.pickle")) >= MOST_WAITING:
            self._notes.warn(
                "a snapshot of GPU memory was skipped: the recorder has not collected the last "
                "ones yet"
            )
            return
        name = f"memory-{self._owner}-{self._number}.pickle"
        self._number += 1
        path = self._spool / name
        partial = path.with_suffix(".new")
        try:
            size = _write(self._torch.cuda.memory._snapshot(), partial)
            partial.replace(path)
        except Exception as error:  # noqa: BLE001 - pickle and torch raise what they like
            with suppress(OSError):
                partial.unlink()
            self._notes.warn(f"a snapshot of GPU memory was lost: {type(error).__name__}: {error}")
            return
        data = {"file": name, "reason": reason, "peak": peak or None, "bytes": size, **more}
        self._notes.write("memory_snapshot", data, step=self._step)


class _Limited:
    """A file of at most ``MOST_BYTES``."""

    def __init__(self, file: BinaryIO) -> None:
        self.size = 0
        self._file = file

    def write(self, data: Any) -> int:
        self.size += memoryview(data).nbytes
        if self.size > MOST_BYTES:
            raise TooLargeError(f"it takes more than {MOST_BYTES >> 20} MiB")
        return self._file.write(data)


def _write(snapshot: Any, path: Path) -> int:
    """Write the format that torch's own tools read, for its owner only; returns the bytes.

    Raises:
        TooLargeError: it is too large.
        OSError: there is no room for it.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        limited = _Limited(file)
        pickle.dump(snapshot, limited)
    return limited.size
