"""What copies between host and device cost a step, by what kind of copy they are."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.host import main_track
from perftui.analysis.intervals import Intervals, intersect, subtract, union
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import trace_fact
from perftui.facts.gpu.cpu_made import made_on_cpu
from perftui.facts.gpu.host_waits import (
    SMALL,
    Copies,
    distinct,
    host_copies,
    host_waits,
    idle_of_host,
)
from perftui.facts.step.trace_steps import TraceSteps
from perftui.trace.categories import DEVICE_ACTIVITY, MEMCPY
from perftui.trace.model import NONE, Int64, Trace

LITTLE = 64 * 1024
"""Bytes below which a copy takes as long as one of a byte; nsys-ai counts copies of fewer."""

PINNED_RATE = 25
"""Bytes a ns that a copy of pinned memory comes to over PCIe 4 x16, and half of what version 5
does."""

FREEING = 0.25
"""ns a byte, at most, that it takes to give back the memory of a batch: 1 us for each page of
4 KiB."""

_WORKERS = re.compile(r"enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter")


class CopyKind(str, enum.Enum):
    """Which way, and from what memory."""

    MADE = "made on the CPU"
    """To the device, of a tensor that an operator has just made on the CPU."""
    PAGEABLE = "pageable"
    """To the device, of memory that is not pinned."""
    PINNED = "pinned"
    TO_HOST = "to host"
    """Copies from the device, of more than ``SMALL`` bytes."""


@dataclass(frozen=True, eq=False)
class CopyCost:
    """Copies of one kind; times in ns of all steady steps."""

    kind: CopyKind
    rows: Int64
    outer: Int64
    """The operators, or calls, that copied."""
    size: int
    """Bytes."""
    little: int
    """How many are of less than ``LITTLE``."""
    alone: Intervals
    """When the device copied and did nothing else."""
    waited: int
    """Time in which the host waited for them."""
    caused: int
    """Idle time of the device that those waits have caused."""

    @property
    def exposed(self) -> int:
        """ns in which the device copied and did nothing else."""
        return self.alone.total

    @property
    def saved_by_pinning(self) -> int:
        """ns of ``exposed`` that pinned memory would save."""
        return max(self.exposed - self.size // PINNED_RATE, 0)


@trace_fact
def copy_costs(analysis: TraceAnalysis) -> dict[CopyKind, CopyCost]:
    """The kinds of copies that there are.

    Raises:
        UnknownError: the trace shows no GPU.
    """
    copies = host_copies(analysis)
    made = np.isin(copies.outer, made_on_cpu(analysis).copies) & (copies.outer != NONE)
    to_device = copies.to_device
    masks = {
        CopyKind.MADE: to_device & made,
        CopyKind.PAGEABLE: to_device & ~made & copies.pageable,
        CopyKind.PINNED: to_device & ~made & ~copies.pageable,
        CopyKind.TO_HOST: ~to_device & (copies.size > SMALL),
    }
    return {kind: _cost(analysis, copies, kind, m) for kind, m in masks.items() if m.any()}


def _cost(analysis: TraceAnalysis, copies: Copies, kind: CopyKind, mask: kinds.Mask) -> CopyCost:
    trace, waits = analysis.trace, host_waits(analysis)
    rows, outer = copies.rows[mask], distinct(copies.outer[mask])
    mine = np.isin(waits.rows, outer)
    copying = union(trace.start[rows], trace.ends_of(rows))
    return CopyCost(
        kind,
        rows,
        outer[outer != NONE],
        int(copies.size[mask].clip(min=0).sum()),
        int(np.count_nonzero(copies.size[mask] < LITTLE)),
        subtract(copying, _others(trace, waits.steps, copying)),
        int(waits.lasting[mine].sum()),
        int(waits.cost[mine].sum()),
    )


def _others(trace: Trace, steps: TraceSteps, during: Intervals) -> Intervals:
    """Time in which the device does something else than to copy, around ``during``."""
    works = trace.in_category(*DEVICE_ACTIVITY) & ~trace.in_category(MEMCPY) & steps.on_device
    work = np.flatnonzero(works)
    if len(during):
        near = trace.start[work] < during.end[-1]
        work = work[near & (trace.ends_of(work) > during.start[0])]
    return union(trace.start[work], trace.ends_of(work))


@trace_fact
def freeing(analysis: TraceAnalysis) -> int:
    """Idle time of the device while the training thread gives back the memory of a batch that was
    copied from pageable memory, ns in all steady steps; 0 where no workers send batches.

    A batch comes in memory that is shared with the worker that made it. Unless it is pinned, which
    a thread of the loader does, the training thread itself maps that memory and unmaps it, once the
    next batch is there.
    """
    trace, waits = analysis.trace, host_waits(analysis)
    found = copy_costs(analysis).get(CopyKind.PAGEABLE)
    if found is None or not any(_WORKERS.match(name) for name in trace.names):
        return 0
    main = np.flatnonzero(trace.track == main_track(trace))
    fetched = np.flatnonzero(kinds.input_wait(trace)[main])
    fetched = fetched[waits.steps.inside[main[fetched]]]
    ends = trace.ends_of(main[fetched])
    following = np.searchsorted(trace.start[main], ends)
    known = following < len(main)
    behind = union(ends[known], trace.start[main][following[known]])
    idle = intersect(behind, idle_of_host(analysis))
    return min(idle.total, round(found.size * FREEING))
