"""GPU memory of a rank by step, as PyTorch's allocator counts it, and the most that one held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perftui.facts.fact import Facts, UnknownError, fact, finite, samples
from perftui.run.table import Table

if TYPE_CHECKING:
    from perftui.trace.model import Int64


@dataclass(frozen=True, eq=False)
class MemoryUse:
    """Sizes are bytes. The columns have one entry for each step kept whose memory is known."""

    step: Int64
    """The steps' own numbers."""
    allocated: Int64
    """Held by tensors at the end of the step."""
    reserved: Int64
    """Held by PyTorch at the end of the step."""
    most: Int64
    """The most that tensors held at any time until the end of the step, as far as it is kept."""
    peak_allocated: int
    """The most that tensors held at any time so far, also within steps."""
    peak_step: int
    """The first step by whose end that had been reached; -1 where it is no longer kept."""
    peak_reserved: int
    """The most that PyTorch held at the end of a step."""
    retries: int | None
    """Allocations that had to be tried again after caches were emptied; None where not counted."""
    failures: int | None
    """Allocations that failed; None where not counted."""
    summed: int = 0
    """Steps between the first and the newest of which only sums are left."""
    knows_peak: bool = True
    """Whether ``peak_allocated`` covers the time within steps, and not only their ends."""


@fact
def gpu_memory(facts: Facts) -> MemoryUse | None:
    """GPU memory of the rank by step; None where no step knows it: a training without a GPU."""
    steps, gone = facts.steps, facts.downsampled.of()
    if not len(steps) or "allocated" not in steps:
        return None
    known = steps.where((steps["allocated"] >= 0) & (steps["reserved"] >= 0))
    if not len(known):
        return None
    peaks = _column(known, "peak_allocated")
    # A step holds at its end what was held at some time within it.
    peak = max(int(peaks.max()), int(known["allocated"].max()))
    before = max(int(gone.of("peak_allocated").highest), int(gone.of("allocated").highest))
    most = np.maximum.accumulate(np.maximum(peaks, known["allocated"]))
    reached = np.flatnonzero(most >= max(peak, before))
    peak_step = -1
    if len(reached):
        # The highest value so far stays in all later rows: it may have been of a summed step.
        row = int(reached[0])
        starts = known["start"][max(row - 1, 0) : row + 1].tolist()
        is_first_after = bool(gone.last) and starts[-1] >= gone.last > min(starts[:-1], default=0)
        peak_step = -1 if is_first_after else int(known["index"][row])
    return MemoryUse(
        step=known["index"],
        allocated=known["allocated"],
        reserved=known["reserved"],
        most=most,
        peak_allocated=max(peak, before),
        peak_step=peak_step,
        peak_reserved=max(int(known["reserved"].max()), int(gone.of("reserved").highest)),
        retries=_counted(facts, "alloc_retries"),
        failures=_counted(facts, "alloc_failures"),
        summed=gone.rows,
        knows_peak=bool((peaks >= 0).any()) or gone.of("peak_allocated").count > 0,
    )


def _column(steps: Table, name: str) -> Int64:
    if name in steps:
        return np.asarray(steps[name], np.int64)
    return np.full(len(steps), -1, np.int64)


def _counted(facts: Facts, name: str) -> int | None:
    """The sum of a column over the steps that know it; None where none does."""
    values = _column(facts.steps, name)
    known, gone = values[values >= 0], facts.downsampled.of().of(name)
    return int(known.sum()) + int(gone.total) if len(known) or gone.count else None


@fact
def peak_reserved(facts: Facts) -> int | None:
    """Most GPU memory that PyTorch held at the end of a step, bytes; None where no step knows."""
    if "reserved" not in facts.steps or not len(facts.steps):
        return None
    gone = facts.downsampled.of().of("reserved")
    peak = max(int(facts.steps["reserved"].max()), int(gone.highest))
    return peak if peak >= 0 else None


@dataclass(frozen=True)
class PeakMemory:
    """Bytes, of the GPU of one rank or of all processes of the run on its machine."""

    size: int
    is_gpu: bool


@fact
def peak_memory(facts: Facts) -> PeakMemory:
    """What torch's allocator held at most; without a GPU the resident memory of the training and
    its workers, a sum in which pages that processes share count in each. Unknown if neither was
    recorded."""
    run, rank = facts.run, facts.rank
    if run is not None and rank is not None:
        for table, column in ((facts.steps, "peak_allocated"), (samples(facts), "processes.rss")):
            if peak := int(finite(table, column).max(initial=0)):
                return PeakMemory(peak, is_gpu=table is facts.steps)
    raise UnknownError("no memory was recorded")
