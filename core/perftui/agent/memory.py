"""Memory of the GPU as torch's caching allocator counts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BUDGET = 100
"""A reading may cost one part in this of the time since the last one."""


@dataclass(frozen=True)
class MemoryReading:
    """Bytes of the current device."""

    allocated: int
    reserved: int
    peak_allocated: int


class MemoryProbe:
    """Reads at step boundaries, as often as its own cost allows, and only where CUDA is in use."""

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        # The public function flattens some 200 counters into a dictionary at every call.
        self._stats = getattr(torch._C, "_cuda_memoryStats", None)
        self._not_before = 0

    def read(self, now: int, clock: Any) -> MemoryReading | None:
        """A reading, or None where there is nothing to read or it is too early for another."""
        if self._stats is None or now < self._not_before or not self._cuda.is_initialized():
            return None
        stats = self._stats(self._cuda.current_device())
        after = clock()
        self._not_before = after + BUDGET * (after - now)
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        return MemoryReading(allocated["current"], reserved["current"], allocated["peak"])
