"""Time by module, where the calls of modules are marked."""

from __future__ import annotations

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.grouping import sums
from perftui.analysis.links import Links
from perftui.analysis.model import OpTable
from perftui.analysis.ops.call_tree import innermost, sums_by_name
from perftui.trace.model import NONE, Int32, Int64, Trace

OUTSIDE = "(in no module)"
"""Operators that no module called: those of the backward pass, of the optimizer, of the script."""


def module_table(trace: Trace, links: Links) -> OpTable:
    """One line for each module, named by its place in the model, and one for what ran in none.

    A module's own time is that of its calls without the modules it calls, Python's included; its
    device time is what was launched meanwhile. Own times of one thread sum to the time it spent
    in modules and operators. Empty where no module is marked.
    """
    modules = kinds.module_calls(trace)
    if not modules.any():
        return OpTable.empty()
    inside = innermost(trace, modules) != NONE
    # What a module calls is part of it, so only operators outside are calls of their own.
    around = innermost(trace, modules | (kinds.operators(trace) & ~inside))
    by_name = sums_by_name(trace, around, _device(trace, links, around))
    is_module = np.array([kinds.is_module(name) for name in trace.names], dtype=bool)
    names = np.flatnonzero((by_name["calls"] > 0) & is_module)
    keys = (-by_name["cpu_self"][names], -by_name["device_self"][names])
    order = names[np.lexsort(keys)]
    others = np.flatnonzero((by_name["calls"] > 0) & ~is_module)
    columns = {name: column[order] for name, column in by_name.items()}
    shown = [kinds.module_of(trace.names[number]) for number in order.tolist()]
    if len(others):
        rest = _together({name: column[others] for name, column in by_name.items()}, trace)
        columns = {name: np.append(column, rest[name]) for name, column in columns.items()}
        shown.append(OUTSIDE)
    return OpTable(names=tuple(shown), **columns)


def _device(trace: Trace, links: Links, around: Int32) -> Int64:
    """What each call launched itself, by row."""
    caller = np.where(links.launch == NONE, links.operator, links.launch)
    found = np.where(caller == NONE, NONE, around[caller])
    linked = found != NONE
    return sums(found[linked], trace.duration[links.activity[linked]], len(trace))


def _together(columns: dict[str, Int64], trace: Trace) -> dict[str, int]:
    """Operators of several names as one: what they took without the modules in them."""
    longest = columns["first_row"][np.argmax(trace.duration[columns["first_row"]])]
    own, device = int(columns["cpu_self"].sum()), int(columns["device_self"].sum())
    return {
        "calls": int(columns["calls"].sum()),
        "cpu_total": own,
        "cpu_self": own,
        "device_total": device,
        "device_self": device,
        "first_row": int(longest),
    }
