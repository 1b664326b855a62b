"""Listening to the garbage collector, as ``pauses.c`` does it where that is compiled."""

from __future__ import annotations

from threading import get_ident
from time import perf_counter_ns
from typing import Any

SHORTEST_NS = 100_000
"""Collections of the young generation take microseconds and come by the hundred."""


class PlainPauses:
    """Collects the pauses of ``thread``: start by ``perf_counter_ns``, duration, generation."""

    thread: int
    found: list[tuple[int, int, int]]

    def __init__(self) -> None:
        self._start = 0

    def on_phase(self, phase: str, info: dict[str, Any], /) -> None:
        """A collection starts or stops."""
        if get_ident() != self.thread:
            return
        now = perf_counter_ns()
        if phase == "start":
            self._start = now
        elif self._start and now - self._start >= SHORTEST_NS:
            self.found.append((self._start, now - self._start, info["generation"]))
