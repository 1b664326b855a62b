"""CPU operators grouped by name, with the device time they caused."""

from __future__ import annotations

from perftui.analysis import kinds
from perftui.analysis.links import Links
from perftui.analysis.model import OpTable
from perftui.analysis.ops.calls import Calls
from perftui.trace.model import Trace


def op_calls(trace: Trace, links: Links) -> Calls:
    """The operators by name."""
    return Calls.of(trace, links, kinds.operators(trace), trace.name, trace.names)


def op_table(trace: Trace, links: Links) -> OpTable:
    """One line for each operator name, most self time first (device, then CPU)."""
    return op_calls(trace, links).table()
