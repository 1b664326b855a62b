"""Debugging tools that a script leaves on: anomaly detection and a profiler of its own."""

from __future__ import annotations

import re

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import Facts, UnknownError, fact, notes_of, trace_fact
from perftui.facts.source.lines import (
    FEWEST_SAMPLES,
    LinesByTime,
    at_frames,
    lines_within,
    stack_samples,
    steady_held,
)
from perftui.facts.source.stack_profile import FEWEST_MOMENTS
from perftui.facts.step.trace_steps import trace_steps
from perftui.run.columns import PROFILE
from perftui.trace.model import NONE, Int64

_NODE = "autograd::engine::evaluate_function: "
_IS_NAN = "aten::isnan"
_CHECK = re.compile(r"aten::(isnan|_is_any_true|any|item|is_nonzero|ne)$")
_EXTRACT = re.compile(r"traceback\.py:|linecache\.py:|torch/fx/traceback\.py|anomaly_mode\.py:")

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


@fact
def stack_notes(facts: Facts) -> float:
    """Share of the steady steps, 0 to 1, in which the main thread records stacks; 0 without
    samples."""
    outside, _ = stack_samples(facts)
    times = steady_held(facts)
    noting = int(times[at_frames(_EXTRACT)(outside)].sum()) if len(outside) else 0
    return noting / int(times.sum()) if noting else 0.0


_PROFILES = re.compile(
    r"^torch/profiler/\w+\.py:|^torch/autograd/profiler\.py:\d+ (profile|Kineto)\b"
)
_SAYS = "the script runs its own profiler"
"""Start of the agent's message."""


@fact
def runs_own_profiler(facts: Facts) -> bool:
    """Whether the agent has seen the script's own profiler start."""
    warnings = notes_of(facts.events, "warning")
    return any(str(note.get("message", "")).startswith(_SAYS) for note in warnings)


@fact
def profiler_lines(facts: Facts) -> LinesByTime | None:
    """Where the main thread was in a profiler's own code, as a share of all steady steps; None with
    too few samples, or none there."""
    lines = lines_within(
        facts,
        lambda stacks: at_frames(_PROFILES)(stacks) | (stacks["stage"] == PROFILE),
        FEWEST_SAMPLES // 2,
    )
    return lines if lines and lines.samples >= FEWEST_MOMENTS else None
