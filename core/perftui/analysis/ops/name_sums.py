"""Ranges that were marked, and calls of the CUDA runtime and driver, summed up by name.

As ``nvtx_sum`` and ``cuda_api_sum`` of ``nsys stats`` have them, but for the time of names that
nest in themselves: there a moment counts once for each thread, and not once for each level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import first_longest, sums, union
from perftui.trace.model import CPU_OP, Int64, Mask, Trace


@dataclass(frozen=True, eq=False)
class NameSums:
    """One line for each name, most time first; every column as long as ``names``, times in ns."""

    names: tuple[str, ...]
    calls: Int64
    total: Int64
    """Time in which any of them was open, summed over the threads: those within or beside others of
    their name on the same thread add nothing."""
    mean: Int64
    """Mean length of one, rounded down; times ``calls`` it is more than ``total`` where they
    nest."""
    shortest: Int64
    longest: Int64
    first_row: Int64
    """A trace row of each, the longest one, to jump to."""

    def __len__(self) -> int:
        return len(self.names)


def range_sums(trace: Trace) -> NameSums:
    """Ranges on threads of the CPU: all of NVTX in an export of nsys, else those that the script,
    PyTorch or perftui marked. MPI calls of nsys are ranges; of ranges that PyTorch marks for NVTX
    the numbers behind the name are left out, as no two would be alike."""
    marked = kinds.ranges(trace)
    return name_sums(trace, marked | trace.in_category(CPU_OP) if _is_of_nsys(trace) else marked)


def call_sums(trace: Trace) -> NameSums:
    """Calls of the runtime and the driver: of CUDA, or of what stands for it on other devices."""
    return name_sums(trace, kinds.launches(trace))


def _is_of_nsys(trace: Trace) -> bool:
    """Whether operators were marked by NVTX: nsys knows no others."""
    from perftui.trace.nsys.assemble import RowReader

    return isinstance(trace.read_arguments, RowReader)


def name_sums(trace: Trace, chosen: Mask) -> NameSums:
    """The ``chosen`` rows by name."""
    rows = np.flatnonzero(chosen).astype(np.int64)
    numbers, group = np.unique(trace.name[rows], return_inverse=True)
    lengths, count = trace.duration[rows], len(numbers)
    calls = np.bincount(group, minlength=count).astype(np.int64)
    summed = sums(group, lengths, count)
    shortest = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(shortest, group, lengths)
    first = first_longest(group, lengths, count)
    total = summed - _counted_twice(trace, rows, group, count)
    order = np.argsort(-total, kind="stable")
    return NameSums(
        tuple(trace.names[int(numbers[at])] for at in order),
        calls[order],
        total[order],
        (summed // np.maximum(calls, 1))[order],
        shortest[order],
        lengths[first][order],
        rows[first][order],
    )


def _counted_twice(trace: Trace, rows: Int64, group: Int64, count: int) -> Int64:
    """For each group how much longer its rows are together than what they cover of each thread."""
    order = np.lexsort((trace.start[rows], trace.track[rows], group))
    start, end = trace.start[rows[order]], trace.ends_of(rows[order])
    of_thread = group[order] * max(len(trace.tracks), 1) + trace.track[rows[order]]
    # Of rows in order of start any overlap shows between two that follow each other.
    beside = of_thread[1:] == of_thread[:-1]
    overlapping = np.unique(of_thread[1:][beside & (start[1:] < end[:-1])])
    twice = np.zeros(count, dtype=np.int64)
    lows = np.searchsorted(of_thread, overlapping, side="left")
    highs = np.searchsorted(of_thread, overlapping, side="right")
    for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
        covered = union(start[low:high], end[low:high]).total
        twice[group[order[low]]] += int((end[low:high] - start[low:high]).sum()) - covered
    return twice
