"""Operators and kernels of the steady steps of a trace, as tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perftui.analysis.by_track import begun_in
from perftui.analysis.kernels.table import kernel_table
from perftui.analysis.links import link
from perftui.analysis.model import KernelTable, OpTable, TraceAnalysis
from perftui.analysis.ops.call_tree import innermost_operator
from perftui.analysis.ops.calls import Calls
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.model import NONE


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


@trace_fact
def step_tables(analysis: TraceAnalysis) -> StepTables:
    """The tables of the steady steps; their times are sums over all of those.

    Raises:
        UnknownError: the trace has no duration at all.
    """
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None:
        raise UnknownError("the trace has no duration")
    links = link(trace)
    if not steps.steps:
        return StepTables(0, analysis.ops, analysis.kernels)
    inside = begun_in(trace, steps.on_host)
    around = np.where(inside, innermost_operator(trace), np.int32(NONE))
    launched = np.where(links.launch == NONE, steps.inside[links.activity], inside[links.launch])
    chosen = replace(
        links,
        activity=links.activity[launched],
        launch=links.launch[launched],
        operator=links.operator[launched],
    )
    return StepTables(
        steps.steps, Calls(trace, chosen, around).table(), kernel_table(trace, chosen)
    )
