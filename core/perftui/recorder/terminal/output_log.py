"""The output log: written by a thread of its own, so that a slow disk never stops the script."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from perftui.recorder.faults import FaultLog

BACKLOG = 256 * 1024 * 1024
"""Bytes that may wait for the disk. A disk that hangs for longer than it takes the script to
print this much costs output in the log, never time in the training."""


class OutputLog:
    """Appends bytes to ``path`` in order; ``write`` never blocks and never raises.

    Bytes that could not be written leave a line with how many are missing. Its thread begins
    with the first ``write``: a log may be opened before the script is forked.

    Raises:
        OSError: ``path`` cannot be opened.
    """

    def __init__(self, path: Path, faults: FaultLog, backlog: int = BACKLOG) -> None:
        self._path = path
        self._faults = faults
        self._limit = backlog
        self._waiting = bytearray()
        self._refused = 0
        """Bytes that found the backlog full since it was last taken."""
        self._lost = 0
        """Bytes that are missing where the log ends; the line about them is not written yet."""
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._is_running = False

    def write(self, data: bytes) -> None:
        """Queue ``data``; while too much waits, leave it out and count it."""
        with self._changed:
            if not self._is_running:
                self._is_running = True
                self._thread.start()
            if self._refused or len(self._waiting) + len(data) > self._limit:
                self._refused += len(data)
            else:
                self._waiting += data
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until everything queued has been written or given up."""
        with self._changed:
            self._changed.wait_for(lambda: not self._has_work() and not self._busy)

    def close(self) -> None:
        """Write the rest and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._is_running:
            self._thread.join()
        os.close(self._file)

    def _run(self) -> None:
        while (chunk := self._next()) is not None:
            self._append(*chunk)
            with self._changed:
                self._busy = False
                self._changed.notify_all()
        if self._lost:
            self._append(b"", 0)

    def _has_work(self) -> bool:
        """What was refused is to be noted too, even where nothing waits: a chunk may be large."""
        return bool(self._waiting or self._refused)

    def _next(self) -> tuple[bytes, int] | None:
        """What waits, and how many bytes were refused after it; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_work() or self._closed)
            if not self._has_work():
                return None
            data = bytes(self._waiting)
            self._waiting.clear()
            refused, self._refused = self._refused, 0
            self._busy = True
            return data, refused

    def _append(self, data: bytes, refused: int) -> None:
        """Write ``data``, after how much is missing before it and before how much is after it."""
        note = _missing(self._lost) if self._lost else b""
        written = self._put(note + data)
        if written >= len(note):
            self._lost = 0
        self._lost += len(data) - max(written - len(note), 0) + refused
        if refused and written == len(note) + len(data):
            self._append(b"", 0)

    def _put(self, data: bytes) -> int:
        """Write ``data``; how many bytes of it the disk took."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            self._faults.report(self._path.name, f"{error.strerror}; the training goes on")
        return written


def _missing(count: int) -> bytes:
    return b"\n[perftui: %d bytes of output are missing here]\n" % count
