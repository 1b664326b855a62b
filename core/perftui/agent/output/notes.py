"""Facts and events that are too rare or too wordy for the ring: lines of JSON in the spool."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...wire.control_page import ControlPage
from ...wire.spool import Spool
from ..safety.signal_handlers import raised_by_handler


class Notes:
    """Appends to ``notes-<pid>.jsonl`` in the spool, each line with one ``write``.

    A training may lose the right or the room to write files while it runs (``setuid``,
    ``RLIMIT_FSIZE``, a full disk), and its steps go on all the same: they have their room already.
    """

    def __init__(self, spool: Path) -> None:
        self.path = Spool(spool).notes(os.getpid())
        self._warned: set[str] = set()
        self._lost = 0
        self._report_lost: Callable[[int], None] | None = None

    def begin(self, facts: dict[str, Any], report_lost: Callable[[int], None]) -> None:
        """Write the first note, of this process.

        From now on ``report_lost`` is called with the number of notes lost so far.

        Raises:
            OSError: the spool cannot be written.
        """
        self._append("process", facts, -1, 0)
        self._report_lost = report_lost

    def write(self, kind: str, data: dict[str, Any], step: int = -1, duration: int = 0) -> None:
        """Append one note, timed now on the wall clock, or count it as lost."""
        try:
            self._append(kind, data, step, duration)
        except OSError as error:
            if raised_by_handler(error):
                raise
            self._lost += 1
            if self._report_lost is not None:
                self._report_lost(self._lost)
            elif self._lost == 1:
                # A spool that is gone belongs to a recorder that is: there is nobody to report to.
                with suppress(OSError):
                    ControlPage(Spool(self.path.parent).control).count_unheard()

    def warn(self, message: str) -> None:
        """Write a warning, once."""
        if message not in self._warned:
            self._warned.add(message)
            self.write("warning", {"message": message})

    def _append(self, kind: str, data: dict[str, Any], step: int, duration: int) -> None:
        note = {
            "time": time.time_ns(),
            "kind": kind,
            "duration": duration,
            "step": step,
            "data": data,
        }
        line = json.dumps(note, default=str).encode() + b"\n"
        # Opened each time: notes are rare, and a descriptor kept open is one that scripts which
        # close or count descriptors would meet.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = os.open(self.path, flags, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)
