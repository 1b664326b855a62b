"""Facts and events that are too rare or too wordy for the ring: lines of JSON in the spool."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class Notes:
    """Appends to ``notes-<pid>.jsonl`` in the spool, each line with one ``write``."""

    def __init__(self, spool: Path) -> None:
        self.path = spool / f"notes-{os.getpid()}.jsonl"

    def write(self, kind: str, data: dict[str, Any], step: int = -1, duration: int = 0) -> None:
        """Append one note, timed now on the wall clock.

        Raises:
            OSError: the spool cannot be written.
        """
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
