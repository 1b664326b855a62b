"""Hands finished windows over through the spool."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .observers import WindowObservers
from .torch_window import Window

MOST_WAITING = 3
"""Windows in the spool that the recorder has not taken. It does so within a second, unless it is
gone or its disk is full, and the spool is memory that the training needs."""


class WindowSaver:
    """Numbers the windows of this process and writes each to a file of the spool."""

    def __init__(self, spool: Path, observers: WindowObservers) -> None:
        self.number = 0
        """Windows that were to be saved so far."""
        self._spool = spool
        self._observers = observers

    def waiting(self) -> int:
        """Windows of this process that the recorder has not taken yet."""
        return sum(1 for _ in self._spool.glob(f"window-{os.getpid()}-*.json"))

    def save(self, window: Window) -> dict[str, Any]:
        """Write ``window`` and what was observed meanwhile; returns the data of its note.

        Raises:
            EmptyWindowError: nothing was recorded.
            OSError: it cannot be written.
        """
        number = self.number
        name = f"window-{os.getpid()}-{number}.json"
        self.number += 1
        size = window.save(self._spool / name)
        observed = self._observers.take(number)
        return {"file": name, "bytes": size, "cuda": window.uses_cuda, **observed}
