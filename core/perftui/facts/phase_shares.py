"""What goes on in each phase of training on the CPU, by a profiled window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.host import Host
from perftui.analysis.intervals import EMPTY, Intervals, intersect, subtract, union, unite
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.parts import OTHER
from perftui.analysis.steps.phases import find_phases
from perftui.facts.communication import collectives
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.trace_steps import trace_steps


@dataclass(frozen=True)
class PhaseShares:
    """Of a phase's time, 0 to 1 each; they do not overlap."""

    computing: float
    """An operator runs that computes."""
    communicating: float
    """A collective is under way, and nothing is computed meanwhile."""


@trace_fact
def phase_shares(analysis: TraceAnalysis) -> Mapping[str, PhaseShares]:
    """By phase of the training thread, and ``other`` for the rest of the steady steps of the trace:
    what goes on in it.

    Raises:
        UnknownError: the trace has no steps or no operators.
    """
    steps = trace_steps(analysis)
    trace = analysis.trace
    operators = kinds.operators(trace)
    if steps is None or not steps.steps or not operators.any():
        raise UnknownError("no profiled step shows the operators")
    start = np.array([one.step.start for one in steps.each], dtype=np.int64)
    end = np.array([one.step.end for one in steps.each], dtype=np.int64)
    within = union(start, end)
    # Backward runs on the thread that trains, or on one of the autograd engine's own.
    running = union(trace.start[operators], trace.ends_of(operators))
    calls = kinds.collective_calls(trace)
    # A call that begins a collective may wait in it, and backward's operators are around it.
    computing = subtract(running, union(trace.start[calls], trace.ends_of(calls)))
    communicating = subtract(collectives(analysis), computing)
    phases = {
        name: intersect(part, within) for name, part in find_phases(trace, Host(trace)).items()
    }
    phases[OTHER] = subtract(within, unite(EMPTY, *phases.values()))
    return {
        name: PhaseShares(_share(computing, part), _share(communicating, part))
        for name, part in phases.items()
    }


def _share(running: Intervals, part: Intervals) -> float:
    return intersect(running, part).total / part.total if part.total else 0.0
