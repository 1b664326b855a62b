"""When batches are looked at: a few times in a run, ever more seldom."""

from __future__ import annotations

from typing import Any

from ..safety.signal_handlers import attempt
from ..windows.torch_window import is_profiling
from .tensors import padding_of_batch

FIRST = 2
"""Steps before the first look."""

MOST = 10
"""Looks in a run: the last after some hundred steps."""

AT_ONCE = 3
"""Of these, in steps that follow each other; the next ones wait until the fast path is left."""


class BatchLooks:
    """The looks of one process."""

    def __init__(self) -> None:
        self._next = FIRST
        self._left = MOST

    def is_due(self, step: int) -> bool:
        """Whether the batch of ``step`` is one to look at."""
        return self._left > 0 and step >= self._next

    def pass_by(self, step: int) -> None:
        """``step`` was looked at, or had nothing to look at."""
        self._left -= 1
        self._next = step + 1 if self._left > MOST - AT_ONCE else 2 * step

    def look(self, torch: Any, batch: Any) -> dict[str, Any] | None:
        """Data of a ``padding`` note; None where the batch has no token ids, or a profiler runs:
        that would take our time for the script's."""
        seen = None if is_profiling(torch) else attempt(padding_of_batch, torch, batch)
        if seen is None:
            return None
        return {"key": seen.key, "length": seen.length, **seen.padding._asdict()}
