"""Device activity grouped by name."""

from __future__ import annotations

import numpy as np

from perftui.analysis.grouping import first_longest, sums
from perftui.analysis.links import Links
from perftui.analysis.model import KernelTable
from perftui.trace.model import Int64, Trace


def kernel_table(trace: Trace, links: Links) -> KernelTable:
    """One line for each (category, name), most time first."""
    rows = links.activity
    width = max(1, len(trace.names))
    key = trace.category[rows].astype(np.int64) * width + trace.name[rows]
    groups, group = np.unique(key, return_inverse=True)
    duration = trace.duration[rows]
    total = sums(group, duration, len(groups))
    begin, by_length = _by_length(group, duration, len(groups))
    count = np.bincount(group, minlength=len(groups)).astype(np.int64)
    first = rows[first_longest(group, duration, len(groups))]
    order = np.argsort(-total, kind="stable")
    return KernelTable(
        names=tuple(trace.names[int(groups[index] % width)] for index in order),
        categories=tuple(trace.categories[int(groups[index] // width)] for index in order),
        calls=count[order],
        total=total[order],
        shortest=by_length[begin][order],
        median=by_length[begin + (count - 1) // 2][order],
        longest=trace.duration[first][order],
        first_row=first[order],
        streams=_streams(trace, rows, group, order),
    )


def _by_length(group: Int64, duration: Int64, groups: int) -> tuple[Int64, Int64]:
    """Where each group begins among its durations, which follow each other shortest first."""
    order = np.lexsort((duration, group))
    return np.searchsorted(group[order], np.arange(groups)), duration[order]


def _streams(
    trace: Trace, rows: Int64, group: Int64, order: Int64
) -> tuple[tuple[tuple[int, int], ...], ...]:
    width = max(1, len(trace.tracks))
    pairs = np.unique(group.astype(np.int64) * width + trace.track[rows])
    found: list[set[tuple[int, int]]] = [set() for _ in order]
    for pair in pairs.tolist():
        track = trace.tracks[pair % width]
        found[pair // width].add((track.device, track.stream))
    return tuple(tuple(sorted(found[index])) for index in order.tolist())
