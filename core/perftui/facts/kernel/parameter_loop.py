"""Loops that call the same few operators for one tensor after the other, outside the optimizer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.by_track import begun_in
from perftui.analysis.gpu_idle.host import main_track
from perftui.analysis.intervals import Intervals, intersect, subtract, union, unite
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.phases import OPERATORS, find_phases
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.gpu.host_waits import idle_of_host
from perftui.facts.kernel.step_kernels import marked_steps
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.model import NONE, Int64, Trace

MANY_GROUPS = 50
"""Alike groups of operators in a row: as many parameters as a small network has."""

_LONGEST_GROUP = 8
"""Operators that are called for one tensor at most."""


@dataclass(frozen=True, eq=False)
class ParameterLoop:
    """The loops of the steady steps that take longest."""

    operators: tuple[str, ...]
    """Operators of one group."""
    groups: int
    """Groups in one step."""
    time: int
    """ns of the training thread, for one step, without phases amid them."""
    idle: int
    """ns of ``time`` in which the device waits for the loop."""
    row: int
    """The first operator."""


@trace_fact
def parameter_loop(analysis: TraceAnalysis) -> ParameterLoop | None:
    """Between the phases of a step; None where no operators repeat so. Operators that wait for the
    device are no such group: that is another loss.

    Raises:
        UnknownError: the trace marks no steps.
    """
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None or not steps.steps:
        raise UnknownError("the trace marks no steps")
    between = _between_phases(trace, steps)
    rows = _called_in(trace, between)
    best = max(
        (_repeated(trace, rows, period) for period in range(1, _LONGEST_GROUP + 1)),
        key=lambda found: int((trace.start[found[1]] - trace.start[found[0]]).sum()),
    )
    first, last, period = best
    if not len(first):
        return None
    spans = intersect(union(trace.start[first], trace.ends_of(last)), between)
    at = int(np.searchsorted(trace.start[rows], trace.start[first[0]]))
    waits = set(np.unique(trace.name[kinds.synchronising(trace)]).tolist())
    names = trace.name[rows[at : at + period]].tolist()
    if waits.intersection(names):
        return None
    inside_loops = spans.holds(trace.start[rows])
    return ParameterLoop(
        tuple(trace.names[name] for name in names),
        int(inside_loops.sum()) // period // steps.steps,
        spans.total // steps.steps,
        intersect(spans, idle_of_host(analysis)).total // steps.steps,
        int(first[0]),
    )


def _between_phases(trace: Trace, steps: TraceSteps) -> Intervals:
    """When the steps are in none of their phases."""
    phases = [part for name, part in find_phases(trace).items() if name != OPERATORS]
    return subtract(marked_steps(steps.analysis, steps), unite(*phases))


def _called_in(trace: Trace, between: Intervals) -> Int64:
    """Operators that the training thread calls directly, in order, in that time."""
    operators = kinds.operators(trace)
    mine = operators & (trace.track == main_track(trace)) & begun_in(trace, between)
    rows = np.flatnonzero(mine)
    above = trace.parent[rows]
    # Those of one track are in order of their starts.
    outermost: Int64 = rows[(above == NONE) | ~operators[above]]
    return outermost


def _repeated(trace: Trace, rows: Int64, period: int) -> tuple[Int64, Int64, int]:
    """First and last rows of runs in which every ``period`` operators are the same again."""
    names = trace.name[rows]
    none = np.zeros(0, dtype=np.int64)
    if len(rows) <= period:
        return none, none, period
    alike = np.concatenate([[False], names[period:] == names[:-period], [False]])
    changes = np.flatnonzero(alike[1:] != alike[:-1])
    begins, ends = changes[::2], changes[1::2]
    long = ends - begins >= (MANY_GROUPS - 1) * period
    return rows[begins[long]], rows[ends[long] + period - 1], period
