"""Time by module, where the calls of modules are marked."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.links import Links
from perftui.analysis.model import OpTable
from perftui.analysis.ops.call_tree import innermost
from perftui.analysis.ops.calls import Calls
from perftui.trace.model import NONE, Trace

OUTSIDE = "(in no module)"
"""Operators that no module called: those of the backward pass, of the optimizer, of the script."""


def module_calls(trace: Trace, links: Links) -> Calls | None:
    """The calls of modules, and as one more group the operators in none; None without modules."""
    modules = kinds.module_calls(trace)
    if not modules.any():
        return None
    # What a module calls is part of it, so only operators outside are calls of their own.
    outside = kinds.operators(trace) & (innermost(trace, modules) == NONE)
    shown = [kinds.module_of(name) for name in trace.names]
    group = np.where(modules, trace.name, len(shown)).astype(np.int32)
    return Calls.of_labels(trace, links, modules | outside, group, [*shown, OUTSIDE])


def module_table(trace: Trace, links: Links) -> OpTable:
    """One line for each module, named by its place in the model, and one for what ran in none.

    A module's own time is that of its calls without the modules it calls, Python's included; its
    device time is what was launched meanwhile. Own times of one thread sum to the time it spent
    in modules and operators. Empty where no module is marked.
    """
    calls = module_calls(trace, links)
    if calls is None:
        return OpTable.empty()
    table = calls.table()
    is_outside = np.array([name == OUTSIDE for name in table.names], dtype=bool)
    # What ran in no module comes last; modules in it are not part of it.
    order = np.argsort(is_outside, kind="stable")
    columns = {each.name: getattr(table, each.name) for each in fields(OpTable)}
    columns["cpu_total"] = np.where(is_outside, table.cpu_self, table.cpu_total)
    columns["device_total"] = np.where(is_outside, table.device_self, table.device_total)
    names = tuple(table.names[row] for row in order.tolist())
    return OpTable(names, *(columns[each.name][order] for each in fields(OpTable)[1:]))
