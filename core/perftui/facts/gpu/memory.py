"""GPU memory of a rank by step, as counted by PyTorch's allocator, and its peaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perftui.facts.fact import Facts, UnknownError, fact, finite, samples
from perftui.run.table import Table

if TYPE_CHECKING:
    from perftui.trace.model import Int64


@dataclass(frozen=True, eq=False)
class MemoryUse:
    """Memory in bytes. Columns have an entry for each step kept with known memory."""

    step: Int64
    """Step numbers."""
    allocated: Int64
    """Bytes of tensors at the end of the step."""
    reserved: Int64
    """Bytes reserved by PyTorch at the end of the step."""
    most: Int64
    """Peak of tensors' bytes up to the end of the step, as far as rows are kept."""
    peak_allocated: int
    """Peak of tensors' bytes so far, including within steps."""
    peak_step: int
    """The first step by whose end that peak was reached; -1 if its row is no longer kept."""
    peak_reserved: int
    """Peak of bytes reserved at the end of a step."""
    retries: int | None
    """Allocations retried after caches were emptied; None if not counted."""
    failures: int | None
    """Allocations that failed; None if not counted."""
    summed: int = 0
    """Steps between the first and the newest that are only kept as sums."""
    knows_peak: bool = True
    """Whether ``peak_allocated`` covers the time within steps, not only their ends."""


@fact
def gpu_memory(facts: Facts) -> MemoryUse | None:
    """GPU memory of the rank by step; None if no step has any, as without a GPU."""
    steps, sums = facts.steps, facts.steps.sums.of()
    if not len(steps) or "allocated" not in steps:
        return None
    valid = steps.where((steps["allocated"] >= 0) & (steps["reserved"] >= 0))
    if not len(valid):
        return None
    peaks = _column(valid, "peak_allocated")
    # Memory at a step's end was also in use within the step.
    peak = max(int(peaks.max()), int(valid["allocated"].max()))
    before = max(int(sums.of("peak_allocated").highest), int(sums.of("allocated").highest))
    most = np.maximum.accumulate(np.maximum(peaks, valid["allocated"]))
    reached = np.flatnonzero(most >= max(peak, before))
    peak_step = -1
    if len(reached):
        # The highest value so far stays in all later rows: it may be from a summed step.
        row = int(reached[0])
        starts = valid["start"][max(row - 1, 0) : row + 1].tolist()
        is_first_after = bool(sums.last) and starts[-1] >= sums.last > min(starts[:-1], default=0)
        peak_step = -1 if is_first_after else int(valid["index"][row])
    return MemoryUse(
        step=valid["index"],
        allocated=valid["allocated"],
        reserved=valid["reserved"],
        most=most,
        peak_allocated=max(peak, before),
        peak_step=peak_step,
        peak_reserved=max(int(valid["reserved"].max()), int(sums.of("reserved").highest)),
        retries=_counted(facts, "alloc_retries"),
        failures=_counted(facts, "alloc_failures"),
        summed=sums.rows,
        knows_peak=bool((peaks >= 0).any()) or sums.of("peak_allocated").count > 0,
    )


def _column(steps: Table, name: str) -> Int64:
    if name in steps:
        return np.asarray(steps[name], np.int64)
    return np.full(len(steps), -1, np.int64)


def _counted(facts: Facts, name: str) -> int | None:
    """The sum of a column over the steps that have it; None if none does."""
    values = _column(facts.steps, name)
    valid, sums = values[values >= 0], facts.steps.sums.of().of(name)
    return int(valid.sum()) + int(sums.total) if len(valid) or sums.count else None


@fact
def peak_reserved(facts: Facts) -> int | None:
    """Peak GPU memory reserved by PyTorch at the end of a step, bytes; None if not recorded."""
    if "reserved" not in facts.steps or not len(facts.steps):
        return None
    sums = facts.steps.sums.of().of("reserved")
    peak = max(int(facts.steps["reserved"].max()), int(sums.highest))
    return peak if peak >= 0 else None


class PeakMemory(NamedTuple):
    """Most memory that a run had."""

    size: int
    """Bytes."""
    is_gpu: bool


@fact
def peak_memory(facts: Facts) -> PeakMemory:
    """Peak of torch's allocator; without a GPU the resident memory of the training and its workers,
    which counts shared pages in each process. Unknown if neither was recorded."""
    run, rank = facts.run, facts.rank
    if run is not None and rank is not None:
        for table, column in ((facts.steps, "peak_allocated"), (samples(facts), "processes.rss")):
            if peak := int(finite(table, column).max(initial=0)):
                return PeakMemory(peak, table is facts.steps)
    raise UnknownError("no memory was recorded")
