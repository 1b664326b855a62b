"""Failures of the recorder, each cause reported once; reporting itself never fails."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class FaultLog:
    """Appends lines to ``recorder.log``, or to stderr if even that fails.

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
            # A full disk: this very line could not be written.
            self._file = None
        sys.stderr.write(f"perftui: {line.decode()}")


NICENESS = 10
"""Niceness of the threads that drain and sample. The ones that carry the script's output keep the
script's own priority, since it waits for them when a pipe is full."""


class Repeating:
    """Calls ``work`` every ``seconds`` until stopped; errors are reported and it goes on."""

    def __init__(
        self, name: str, seconds: float, work: Callable[[], object], faults: FaultLog
    ) -> None:
        self.name = name
        self._seconds = seconds
        self._work = work
        self._faults = faults
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self, patience: float | None = None) -> bool:
        """Let the current turn end, and begin no other.

        Waits for the turn, at most ``patience`` seconds; returns whether it has ended.
        """
        self._stopped.set()
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        # Only Linux can lower the priority of this thread alone. A lower priority stays as it is:
        # raising it takes a privilege.
        if sys.platform == "linux":
            thread = threading.get_native_id()
            with suppress(OSError):
                if os.getpriority(os.PRIO_PROCESS, thread) < NICENESS:
                    os.setpriority(os.PRIO_PROCESS, thread, NICENESS)
        due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - a bug here must not end the recording
                self._faults.report(f"{self.name}: {type(error).__name__}", error)
            # Missed turns are left out, not caught up with.
            due = max(due + self._seconds, time.monotonic())
