"""When batches are checked for padding: a few times in a run, less and less often."""

from __future__ import annotations

from typing import Any

from ..safety.signal_handlers import attempt
from ..windows.torch_window import is_profiling
from .tensors import padding_of_batch

FIRST = 2
"""Steps before the first check."""

MOST = 10
"""Checks in a run: the last after some hundred steps."""

AT_ONCE = 3
"""Checks in consecutive steps; later ones wait until the fast path is left."""


class PaddingChecks:
    """Schedules and makes the padding checks of one process."""

    def __init__(self) -> None:
        self._next = FIRST
        self._left = MOST

    def is_due(self, step: int) -> bool:
        """Whether the batch of ``step`` is to be checked."""
        return self._left > 0 and step >= self._next

    def count(self, step: int) -> None:
        """Count ``step`` as checked, also if it had no batch to check."""
        self._left -= 1
        self._next = step + 1 if self._left > MOST - AT_ONCE else 2 * step

    def check(self, torch: Any, batch: Any) -> dict[str, Any] | None:
        """Data of a ``padding`` note. None if the batch has no token ids, or while a profiler runs,
        which would count our time as the script's."""
        seen = None if is_profiling(torch) else attempt(padding_of_batch, torch, batch)
        if seen is None:
            return None
        return {"key": seen.key, "length": seen.length, **seen.padding._asdict()}
