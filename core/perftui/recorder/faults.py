"""What the recorder could not do, reported once for each cause, without ever failing itself."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path


class FaultLog:
    """Appends lines to ``recorder.log``; where even that fails, to stderr.

    Safe to call from every thread. A ``subject`` is written once.
    """

    def __init__(self, path: Path) -> None:
        self._reported: set[str] = set()
        self._lock = threading.Lock()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            self._file: int | None = os.open(path, flags, 0o600)
        except OSError:
            self._file = None

    def report(self, subject: str, problem: object) -> bool:
        """Write ``subject: problem`` unless the subject was reported before; True if it was new."""
        with self._lock:
            if subject in self._reported:
                return False
            self._reported.add(subject)
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        self._write(f"{stamp} {subject}: {problem}\n".encode("utf-8", "replace"))
        return True

    def _write(self, line: bytes) -> None:
        try:
            if self._file is not None:
                os.write(self._file, line)
                return
        except OSError:
            # A full disk: the line itself is what could not be written.
            self._file = None
        sys.stderr.write(f"perftui: {line.decode()}")
