"""What is paid at first use: compiling, loading code, capturing graphs, starting libraries."""

from __future__ import annotations

import re

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import Intervals, union
from perftui.analysis.ops.call_tree import innermost_operator
from perftui.trace.model import NONE, Mask, Trace

_GRAPH_LAUNCH = re.compile(r"(cuda|hip|cu)GraphLaunch")
_LOADING = re.compile(
    r"cu(Module|Library)Load|hipModuleLoad|cuInit$|cu(DevicePrimary)?Ctx(Create|Retain)"
    r"|__(cuda|hip)RegisterFatBinary|urProgram(Build|Create)|zeModuleCreate"
)
_BEGIN_CAPTURE, _END_CAPTURE = (
    re.compile(rf"(cuda|hip|cu)Stream{which}Capture") for which in ("Begin", "End")
)
_FREE = re.compile(r"(cuda|hip)Free(Async)?$")
_COMPILING = re.compile(r".*\(dynamo_timed\)$|entire_(frame|backward)_compile$|.*[Nn]vrtc.*Compile")
"""What dynamo, inductor and nvFuser mark while they compile."""

FIRST_USE = 1_000_000
"""From so many ns on a call that should only enqueue or create something has loaded code: on slow
hosts such calls take 50 us, the first launch of a kernel takes milliseconds."""

FIRST_ALLOCATION = 50_000_000
"""From so many ns on a call for memory of the device has set up more than that memory: on a device
that has nothing to do others take a few milliseconds."""


def compiling(trace: Trace) -> Mask:
    """Ranges in which a compiler of kernels is at work."""
    return (kinds.operators(trace) | kinds.ranges(trace)) & kinds.named(trace, _COMPILING.match)


def capturing(trace: Trace, here: Mask | None = None) -> Intervals:
    """When launches are recorded into a graph rather than run: from each call that begins it to the
    next that ends one, of the rows ``here``."""
    calls = kinds.launches(trace) if here is None else kinds.launches(trace) & here
    begins = np.sort(trace.start[calls & kinds.named(trace, _BEGIN_CAPTURE.match)])
    ends = np.sort(trace.ends_of(calls & kinds.named(trace, _END_CAPTURE.match)))
    following = np.searchsorted(ends, begins)
    ended = following < len(ends)
    return union(begins[ended], ends[following[ended]])


def initialising(trace: Trace) -> Mask:
    """Calls that load code or set the driver up, and calls that take too long to do else."""
    calls = kinds.launches(trace)
    loading = calls & kinds.named(trace, _LOADING.match)
    driver = trace.in_category("overhead") & kinds.named(trace, kinds.DRIVER_LOADING.__contains__)
    slow = calls & (trace.duration >= FIRST_USE)
    if slow.any():
        at_once = (
            kinds.synchronising(trace)
            | kinds.allocating(trace)
            | kinds.named(trace, _GRAPH_LAUNCH.match)
        )
        of_device = kinds.allocating(trace) & kinds.named(trace, lambda name: "Host" not in name)
        sets_up = of_device & (trace.duration >= FIRST_ALLOCATION)
        slow &= ~at_once | sets_up | _frees_nothing(trace, slow & of_device)
    return loading | driver | slow


def _frees_nothing(trace: Trace, slow: Mask) -> Mask:
    """Which of the ``slow`` calls give memory back in the first call of an operator that has asked
    for none before: no allocator does so, libraries make a driver start up by it."""
    found = np.zeros(len(trace), dtype=bool)
    rows = np.flatnonzero(slow & kinds.named(trace, _FREE.match))
    if not len(rows):
        return found
    around = innermost_operator(trace)
    asking = np.flatnonzero(kinds.allocating(trace) & ~kinds.named(trace, _FREE.match))
    for row in rows[around[rows] != NONE].tolist():
        operator = around[row]
        alike = np.flatnonzero((trace.name == trace.name[operator]) & kinds.operators(trace))
        first = alike[np.argmin(trace.start[alike])]
        asked = trace.start[asking[around[asking] == operator]]
        is_first = trace.start[row] < trace.start[first] + trace.duration[first]
        found[row] = is_first and not (asked < trace.start[row]).any()
    return found
