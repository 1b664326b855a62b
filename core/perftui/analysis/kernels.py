"""Device activity grouped by name."""

from __future__ import annotations

import numpy as np

from perftui.analysis.grouping import first_longest, sums
from perftui.analysis.links import Links
from perftui.analysis.model import KernelTable
from perftui.trace.model import Trace


def kernel_table(trace: Trace, links: Links) -> KernelTable:
    """One line for each (category, name), most time first."""
    rows = links.activity
    width = max(1, len(trace.names))
    key = trace.category[rows].astype(np.int64) * width + trace.name[rows]
    groups, group = np.unique(key, return_inverse=True)
    duration = trace.duration[rows]
    total = sums(group, duration, len(groups))
    shortest = np.full(len(groups), np.iinfo(np.int64).max)
    np.minimum.at(shortest, group, duration)
    first = rows[first_longest(group, duration, len(groups))]
    order = np.argsort(-total, kind="stable")
    return KernelTable(
        names=tuple(trace.names[int(groups[index] % width)] for index in order),
        categories=tuple(trace.categories[int(groups[index] // width)] for index in order),
        calls=np.bincount(group, minlength=len(groups)).astype(np.int64)[order],
        total=total[order],
        shortest=shortest[order],
        longest=trace.duration[first][order],
        first_row=first[order],
    )
