"""Memory of the GPU as torch's caching allocator counts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BUDGET = 500
"""A reading may cost one part in this of the time since the last one: at 40 us, steps of 20 ms and
more are all read where nothing else is saved on them."""


@dataclass(frozen=True)
class MemoryReading:
    """Bytes of the current device."""

    allocated: int
    reserved: int
    peak_allocated: int
    retries: int
    """Allocations, since the reading before, that only went through once the cache was emptied."""
    failures: int
    """Allocations, since then, that did not."""


class MemoryProbe:
    """Reads at step boundaries, as often as its own cost allows."""

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        # The public function flattens some 200 counters into a dictionary at every call.
        self._stats: Any = getattr(torch._C, "_cuda_memoryStats", None)
        self._not_before = 0
        self._retries = 0
        self._failures = 0

    def is_due(self, now: int) -> bool:
        """Whether this torch has something to read and it is time for that."""
        return self._stats is not None and now >= self._not_before

    def read(self, now: int, clock: Any) -> MemoryReading:
        """A reading, where it is due and CUDA is in use."""
        stats = self._stats(self._cuda.current_device())
        after = clock()
        self._not_before = after + BUDGET * (after - now)
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        retries, self._retries = self._retries, stats.get("num_alloc_retries", 0)
        failures, self._failures = self._failures, stats.get("num_ooms", 0)
        return MemoryReading(
            allocated["current"],
            reserved["current"],
            allocated["peak"],
            # The script may set the counters back.
            max(self._retries - retries, 0),
            max(self._failures - failures, 0),
        )
