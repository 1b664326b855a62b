"""CPU operators grouped by name, with the device time they caused."""

from __future__ import annotations

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.call_tree import innermost, sums_by_name
from perftui.analysis.grouping import sums
from perftui.analysis.links import Links
from perftui.analysis.model import OpTable
from perftui.trace.model import NONE, Trace


def op_table(trace: Trace, links: Links) -> OpTable:
    """One line for each operator name, most self time first (device, then CPU)."""
    linked = links.operator != NONE
    launched = trace.duration[links.activity[linked]]
    device = sums(links.operator[linked], launched, len(trace))
    columns = sums_by_name(trace, innermost(trace, kinds.operators(trace)), device)
    names = np.flatnonzero(columns["calls"])
    keys = (-columns["cpu_self"][names], -columns["device_self"][names])
    order = names[np.lexsort(keys)]
    return OpTable(
        names=tuple(trace.names[number] for number in order.tolist()),
        **{name: column[order] for name, column in columns.items()},
    )
