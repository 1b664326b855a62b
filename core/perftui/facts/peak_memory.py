"""The most memory that a training held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.samples import samples
from perftui.run.table import Table


@dataclass(frozen=True)
class PeakMemory:
    """Bytes, of the GPU of one rank or of all processes of the run on its machine."""

    size: int
    is_gpu: bool


def _peak(table: Table, column: str, is_gpu: bool) -> PeakMemory | None:
    if column not in table:
        return None
    values = np.asarray(table[column], dtype=np.float64)
    known = values[np.isfinite(values) & (values > 0)]
    return PeakMemory(int(known.max()), is_gpu) if len(known) else None


@fact
def peak_memory(facts: Facts) -> PeakMemory:
    """What torch's allocator held at most; without a GPU the resident memory of the training and
    its workers, a sum in which pages that processes share count in each.

    Raises:
        UnknownError: neither was recorded.
    """
    run, rank = facts.run, facts.rank
    if run is not None and rank is not None:
        of_gpu = _peak(facts.steps, "peak_allocated", is_gpu=True)
        if found := of_gpu or _peak(samples(facts), "processes.rss", is_gpu=False):
            return found
    raise UnknownError("no memory was recorded")
