"""Pauses of Python's garbage collector on the training thread."""

from __future__ import annotations

import gc
from threading import get_ident
from time import perf_counter_ns
from typing import Any, NamedTuple

SHORTEST_NS = 100_000
"""Collections of the young generation take microseconds and come by the hundred."""


class Pause(NamedTuple):
    """One collection, by ``perf_counter_ns``."""

    start: int
    duration: int
    generation: int


class GcPauses:
    """Keeps the pauses of one thread until ``take``.

    They are not written where they happen: a collection may start in the middle of a write.
    """

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self._start = 0
        self.found: list[Pause] = []
        """Since the last ``take``: the same list always."""
        gc.callbacks.append(self._on_phase)

    def take(self) -> list[Pause]:
        """Pauses since the last call."""
        taken = self.found[:]
        del self.found[: len(taken)]
        return taken

    def close(self) -> None:
        """Listen no more."""
        if self._on_phase in gc.callbacks:
            gc.callbacks.remove(self._on_phase)

    def _on_phase(self, phase: str, info: dict[str, Any]) -> None:
        if get_ident() != self.thread:
            return
        now = perf_counter_ns()
        if phase == "start":
            self._start = now
        elif self._start and now - self._start >= SHORTEST_NS:
            self.found.append(Pause(self._start, now - self._start, info["generation"]))
