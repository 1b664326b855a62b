"""Operators and kernels of the steady steps of a trace, as tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.analyse import kernel_table
from perftui.analysis.kinds import begun_in
from perftui.analysis.model import KernelTable, OpTable, TraceAnalysis
from perftui.analysis.ops.call_groups import by_shape, op_arguments
from perftui.analysis.ops.calls import Calls, Links, innermost_operator, link
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.model import NONE, Int32, Trace, TraceError

FIRST_ROWS = 64
"""Operators checked for recorded shapes."""


@dataclass(frozen=True, eq=False)
class StepTables:
    """Operators and kernels of the steady steps, or of the whole trace if steps are unknown."""

    steps: int
    """Number of steps; 0 for the whole trace."""
    operators: OpTable
    """Operators that begin in the steps."""
    kernels: KernelTable
    """Kernels they launched, whenever they run, on all devices; kernels without a recorded launch
    count if they run in the steps."""
    busy: int
    """Busy time of devices with these kernels, ns, summed over devices: less than the sum of kernel
    times if some overlap."""


@trace_fact
def step_tables(analysis: TraceAnalysis) -> StepTables:
    """The tables of the steady steps, with times summed over all steps. Unknown if the trace has no
    duration."""
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None:
        raise UnknownError("the trace has no duration")
    chosen = _chosen(trace, steps)
    if not steps.steps:
        return StepTables(0, analysis.ops, analysis.kernels, _busy(trace, chosen))
    calls = Calls(trace, chosen, _around(trace, steps))
    return StepTables(steps.steps, calls.table(), kernel_table(trace, chosen), _busy(trace, chosen))


@trace_fact
def operators_by_shape(analysis: TraceAnalysis) -> OpTable:
    """``StepTables.operators`` by name and input shapes: ``aten::mm [64,128] [128,10]``.

    Reads the operators' arguments from the file, 5 us each. Unknown if the trace has no duration or
    no recorded shapes."""
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None:
        raise UnknownError("the trace has no duration")
    around = _around(trace, steps) if steps.steps else innermost_operator(trace)
    rows = np.flatnonzero(around == np.arange(len(trace)))
    try:
        some = op_arguments(trace, rows=rows[:FIRST_ROWS])
        read = op_arguments(trace, rows=rows) if some.shapes else some
    except TraceError as error:
        raise UnknownError(f"shapes of operators cannot be read: {error}") from error
    if not read.shapes:
        raise UnknownError("shapes of operators were not recorded (--shapes)")
    group, labels = by_shape(trace, read)
    return Calls(replace(trace, name=group, names=labels), _chosen(trace, steps), around).table()


def _around(trace: Trace, steps: TraceSteps) -> Int32:
    """Innermost operator around each row that begins in the steps, else NONE."""
    return np.where(begun_in(trace, steps.on_host), innermost_operator(trace), np.int32(NONE))


def _chosen(trace: Trace, steps: TraceSteps) -> Links:
    """Launches of the steps, or of the whole trace if steps are unknown."""
    links = link(trace)
    if not steps.steps:
        return links
    inside = begun_in(trace, steps.on_host)
    launched = np.where(links.launch == NONE, steps.inside[links.activity], inside[links.launch])
    return replace(
        links,
        activity=links.activity[launched],
        launch=links.launch[launched],
        operator=links.operator[launched],
    )


def _busy(trace: Trace, chosen: Links) -> int:
    device = kinds.devices(trace)[chosen.activity]
    return sum(
        kinds.busy(trace, rows).total
        for number in np.unique(device)
        if len(rows := chosen.activity[device == number])
    )
