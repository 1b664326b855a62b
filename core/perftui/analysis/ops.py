"""CPU operators grouped by name, with the device time they caused."""

from __future__ import annotations

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.ancestors import above, by_depth, innermost
from perftui.analysis.grouping import first_longest, sums
from perftui.analysis.kinds import Mask
from perftui.analysis.links import Links
from perftui.analysis.model import OpTable
from perftui.trace.model import NONE, Int64, Trace


def op_table(trace: Trace, links: Links) -> OpTable:
    """One line for each operator name, most self time first (device, then CPU)."""
    is_operator = kinds.operators(trace)
    caller = above(innermost(trace, is_operator), trace.parent)
    rows = np.flatnonzero(is_operator).astype(np.int64)
    names, group = np.unique(trace.name[rows], return_inverse=True)
    outermost = ~_recursive(trace, rows, caller)
    lasting, own = _lasting_and_own(trace, is_operator, caller)
    device_total, device_self = _device_time(trace, links, caller, outermost, rows)
    columns = {
        "calls": np.bincount(group, minlength=len(names)).astype(np.int64),
        "cpu_total": sums(group[outermost], lasting[rows][outermost], len(names)),
        "cpu_self": sums(group, own[rows], len(names)),
        "device_total": sums(group, device_total[rows], len(names)),
        "device_self": sums(group, device_self[rows], len(names)),
        "first_row": rows[first_longest(group, trace.duration[rows], len(names))],
    }
    order = np.lexsort((-columns["cpu_self"], -columns["device_self"]))
    return OpTable(
        names=tuple(trace.names[int(names[index])] for index in order),
        **{name: column[order] for name, column in columns.items()},
    )


def _recursive(trace: Trace, rows: Int64, caller: Int64) -> Mask:
    """Which rows run inside an operator of their own name."""
    recursive = np.zeros(len(rows), dtype=bool)
    current = caller[rows]
    active = np.flatnonzero(current != NONE)
    while len(active):
        recursive[active] |= trace.name[current[active]] == trace.name[rows[active]]
        current[active] = caller[current[active]]
        active = active[(current[active] != NONE) & ~recursive[active]]
    return recursive


def _lasting_and_own(trace: Trace, is_operator: Mask, caller: Int64) -> tuple[Int64, Int64]:
    """Duration cut at the caller's end, and what of it no callee covers."""
    end = trace.end
    own = np.zeros(len(trace), dtype=np.int64)
    lasting = np.zeros(len(trace), dtype=np.int64)
    for level in by_depth(trace):
        rows = level[is_operator[level]]
        called = rows[caller[rows] != NONE]
        end[called] = np.maximum(trace.start[called], np.minimum(end[called], end[caller[called]]))
        lasting[rows] = own[rows] = end[rows] - trace.start[rows]
        np.subtract.at(own, caller[called], lasting[called])
    return lasting, own


def _device_time(
    trace: Trace, links: Links, caller: Int64, outermost: Mask, rows: Int64
) -> tuple[Int64, Int64]:
    """By row: time of what it launched itself, and of what it or its callees launched.

    Where an operator calls itself, only the outermost call is given the total.
    """
    counts = np.zeros(len(trace), dtype=bool)
    counts[rows] = outermost
    linked = links.operator != NONE
    current = links.operator[linked]
    duration = trace.duration[links.activity[linked]]
    own = sums(current, duration, len(trace))
    total = np.zeros(len(trace), dtype=np.int64)
    while len(current):
        np.add.at(total, current[counts[current]], duration[counts[current]])
        following = caller[current]
        current, duration = following[following != NONE], duration[following != NONE]
    return total, own
