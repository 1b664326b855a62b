"""Debugging tools that a script leaves on: anomaly detection and a profiler of its own."""

from __future__ import annotations

import re

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import Facts, UnknownError, fact, notes_of, trace_fact
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.model import NONE, Int64

_NODE = "autograd::engine::evaluate_function: "
_IS_NAN = "aten::isnan"
_CHECK = re.compile(r"aten::(isnan|_is_any_true|any|item|is_nonzero|ne)$")

FEWEST = 4
"""Fewest checks in the steady steps of a trace: a network of one layer has more."""


@trace_fact
def anomaly_checks(analysis: TraceAnalysis) -> tuple[Int64, int, int] | None:
    """Rows of the operators that check gradients, in the steady steps; the gradients checked, and
    the nodes of backward passes, each of which recorded its stack. None if none is checked.

    In each node of backward, after its own operators, the engine calls ``isnan`` and ``any`` on
    each gradient and reads the result. Unknown if the trace has no duration.
    """
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None:
        raise UnknownError("the trace has no duration")
    if _IS_NAN not in trace.names:
        return None
    nodes = kinds.named(trace, lambda name: name.startswith(_NODE))
    passed = np.flatnonzero(nodes)
    passed = passed[steps.inside[passed]]
    rows = np.flatnonzero(kinds.operators(trace) & kinds.named(trace, _CHECK.match))
    rows = rows[steps.inside[rows]].astype(np.int64)
    above = trace.parent[rows]
    rows = rows[(above != NONE) & nodes[above]]
    checks = int(np.count_nonzero(kinds.named(trace, _IS_NAN.__eq__)[rows]))
    return (rows, checks, len(passed)) if checks >= FEWEST else None


_SAYS = "the script runs its own profiler"
"""Start of the agent's message."""


@fact
def runs_own_profiler(facts: Facts) -> bool:
    """Whether the agent has seen the script's own profiler start."""
    warnings = notes_of(facts.events, "warning")
    return any(str(note.get("message", "")).startswith(_SAYS) for note in warnings)
