"""The most memory that a training held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.facts.fact import Facts, UnknownError, fact
from perftui.run.table import Table


@dataclass(frozen=True)
class PeakMemory:
    """Bytes, of the GPU of one rank or of all processes of the run on its machine."""

    size: int
    is_gpu: bool


@dataclass(frozen=True)
class _Source:
    table: Table
    column: str
    is_gpu: bool

    def peak(self) -> PeakMemory | None:
        if self.column not in self.table:
            return None
        values = np.asarray(self.table[self.column], dtype=np.float64)
        known = values[np.isfinite(values) & (values > 0)]
        return PeakMemory(int(known.max()), self.is_gpu) if len(known) else None


@fact
def peak_memory(facts: Facts) -> PeakMemory:
    """What torch's allocator held at most; without a GPU the resident memory of the training and
    its workers, a sum in which pages that processes share count in each.

    Raises:
        UnknownError: neither was recorded.
    """
    run, rank = facts.run, facts.rank
    if run is not None and rank is not None:
        samples = run.telemetry.get(rank.host or run.manifest.host, Table())
        sources = (
            _Source(facts.steps, "peak_allocated", True),
            _Source(samples, "processes.rss", False),
        )
        for source in sources:
            if found := source.peak():
                return found
    raise UnknownError("no memory was recorded")
