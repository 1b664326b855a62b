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

    Bytes that could not be written leave a line that says how many are missing.
    """

    def __init__(self, path: Path, faults: FaultLog, backlog: int = BACKLOG) -> None:
        self._path = path
        self._faults = faults
        self._limit = backlog
        self._waiting = bytearray()
        self._refused = 0
        """Bytes that found the backlog full since it was last taken."""
        self._lost = 0
        """Bytes that the disk refused; the line that says so is still to be written."""
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Queue ``data``; while too much waits, leave it out and count it."""
        with self._changed:
            if self._refused or len(self._waiting) + len(data) > self._limit:
                self._refused += len(data)
            else:
                self._waiting += data
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until everything queued has been written or given up."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy)

    def close(self) -> None:
        """Write the rest and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        os.close(self._file)

    def _run(self) -> None:
        while (data := self._next()) is not None:
            self._append(data)
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _next(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return None
            data = bytes(self._waiting)
            self._waiting.clear()
            if self._refused:
                data += _missing(self._refused)
                self._refused = 0
            self._busy = True
            return data

    def _append(self, data: bytes) -> None:
        note = _missing(self._lost) if self._lost else b""
        line = note + data
        written = 0
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
            self._lost = 0
        except OSError as error:
            self._lost += min(len(data), len(line) - written)
            self._faults.say(self._path.name, f"{error.strerror}; the training goes on")


def _missing(count: int) -> bytes:
    return b"\n[perftui: %d bytes of output are missing here]\n" % count
