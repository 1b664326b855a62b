"""Pauses of Python's garbage collector on the training thread."""

from __future__ import annotations

import gc
from typing import NamedTuple

from ..native.compiled import CompiledPauses


class Pause(NamedTuple):
    """One collection, by ``perf_counter_ns``."""

    start: int
    duration: int
    generation: int


class GcPauses(CompiledPauses):
    """Keeps the pauses of one thread until ``take``.

    They are not written where they happen: a collection may start in the middle of a write.
    """

    def __init__(self, thread: int) -> None:
        super().__init__()
        self.thread = thread
        self.found = []
        """Since the last ``take``: the same list always."""
        gc.callbacks.append(self.on_phase)

    def take(self) -> list[Pause]:
        """Pauses since the last call."""
        taken = [Pause(*one) for one in self.found]
        del self.found[: len(taken)]
        return taken

    def close(self) -> None:
        """Listen no more."""
        if self.on_phase in gc.callbacks:
            gc.callbacks.remove(self.on_phase)
