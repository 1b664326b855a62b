"""Operators and kernels of the steady steps of a trace, as tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.analyse import kernel_table
from perftui.analysis.intervals import union
from perftui.analysis.kinds import begun_in
from perftui.analysis.model import KernelTable, OpTable, TraceAnalysis
from perftui.analysis.ops.call_groups import by_shape, op_arguments
from perftui.analysis.ops.calls import Calls, Links, innermost_operator, link
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.model import NONE, Int32, Trace, TraceError

FIRST_ROWS = 64
"""Operators that are looked at to see whether shapes were recorded."""


@dataclass(frozen=True, eq=False)
class StepTables:
    """What the steady steps called and launched, or the whole trace if steps are not known."""

    steps: int
    """How many they are; 0 for the whole trace."""
    operators: OpTable
    """Operators that begin in them."""
    kernels: KernelTable
    """What they launched, whenever it runs, on all devices; without its launch in the file what
    runs meanwhile."""
    busy: int
    """ns in which a device was busy with that, of several devices the sum: less than the times of
    ``kernels`` where some ran side by side."""


@trace_fact
def step_tables(analysis: TraceAnalysis) -> StepTables:
    """The tables of the steady steps; their times are sums over all of those. Unknown if the trace
    has no duration at all."""
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
    """``StepTables.operators`` by name and shapes of the inputs: ``aten::mm  [64,128] [128,10]``.

    It reads the arguments of the operators from the file, 5 us each. Unknown if the trace has no
    duration, or shapes were not recorded in it.
    """
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
    named = replace(trace, name=group, names=labels)
    return Calls(named, _chosen(trace, steps), around).table()


def _around(trace: Trace, steps: TraceSteps) -> Int32:
    """For each row that begins in the steps the innermost operator around it, else NONE."""
    inside = begun_in(trace, steps.on_host)
    return np.where(inside, innermost_operator(trace), np.int32(NONE))


def _chosen(trace: Trace, steps: TraceSteps) -> Links:
    """What the steps launched, or the whole trace."""
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
        union(trace.start[rows], trace.ends_of(rows)).total
        for one in np.unique(device)
        if len(rows := chosen.activity[device == one])
    )
