"""What goes on in each phase of training on the CPU, by a profiled window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import EMPTY, Intervals, intersect, subtract, union, unite
from perftui.analysis.kinds import covered
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD, INPUT_WAIT, OPERATORS, OTHER, find_phases
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.ranks.communication import collectives
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.model import Mask, Trace

LONG_READ = 100_000
"""ns from which on an operator that reads a value waits for a device: on the CPU it takes 1 us."""

_READS = frozenset({"aten::item", "aten::_local_scalar_dense"})


@dataclass(frozen=True)
class PhaseShares:
    """Shares of a phase's time, 0 to 1 each; they do not overlap."""

    computing: float
    """An operator runs that computes."""
    loss: float
    """An operator runs between a forward and the backward pass that follows it; in ``other``."""
    communicating: float
    """A collective is under way, and nothing is computed meanwhile."""
    reading: float
    """An operator reads a value so long that it waits for a device, and nothing else goes on."""
    time: int
    """ns of the phase in the steady steps of the trace."""


@trace_fact
def phase_shares(analysis: TraceAnalysis) -> Mapping[str, PhaseShares]:
    """By phase of the training thread, and ``other`` for the rest of the steady steps of the trace
    (or of all of it if they are not known; of very many operators, of the first steps): what
    goes on in it; without phases that are not there.

    Raises:
        UnknownError: neither an operator nor a collective is in these steps.
    """
    steps = trace_steps(analysis)
    trace = analysis.trace
    operators = kinds.operators(trace)
    if steps is None or not (operators.any() or kinds.host_collectives(trace).any()):
        raise UnknownError("no profiled step shows the operators")
    if (fewer := steps.first(operators)) is not steps:
        steps, operators = fewer, operators & fewer.inside
    # Backward runs on the thread that trains, or on one of the autograd engine's own.
    reads = _waiting_reads(trace) & operators
    running = covered(trace, operators & ~reads)
    calls = kinds.collective_calls(trace)
    # A call that begins a collective may wait in it, and backward's operators are around it.
    computing = subtract(running, union(trace.start[calls], trace.ends_of(calls)))
    communicating = subtract(collectives(analysis), computing)
    reading = subtract(covered(trace, reads), unite(computing, communicating))
    phases = {name: part for name, part in _phases(steps).items() if part.total}
    reducing = intersect(communicating, phases.get(OTHER, EMPTY)).total
    if not phases.keys() - {INPUT_WAIT, OTHER} and not reducing:
        raise UnknownError("no profiled step shows any phase of the training")
    loss = intersect(_between(phases), phases.get(OTHER, EMPTY))
    return {
        name: PhaseShares(
            _time(computing, part) / part.total,
            _time(computing, loss) / part.total if name == OTHER else 0.0,
            _time(communicating, part) / part.total,
            _time(reading, part) / part.total,
            part.total,
        )
        for name, part in phases.items()
    }


def _waiting_reads(trace: Trace) -> Mask:
    """Operators that do nothing but wait for a value."""
    return kinds.named(trace, _READS.__contains__) & (trace.duration >= LONG_READ)


def waiting_reads(analysis: TraceAnalysis) -> Mapping[str, float]:
    """By phase: the share of its time in operators that wait for a value."""
    try:
        return {name: each.reading for name, each in phase_shares(analysis).items()}
    except UnknownError:
        return {}


def unmarked_operators(shares: Mapping[str, PhaseShares]) -> float:
    """Share of what a run calls the script's own code taken by operators of a forward pass which
    nobody marked, as that of a training without modules; 0 to 1."""
    operators, other = shares.get(OPERATORS), shares.get(OTHER)
    if operators is None:
        return 0.0
    return operators.time / max(operators.time + (other.time if other else 0), 1)


def _between(phases: Mapping[str, Intervals]) -> Intervals:
    """From the end of each forward pass to the backward pass that follows before another one."""
    forward, backward = phases.get(FORWARD, EMPTY), phases.get(BACKWARD, EMPTY)
    if not len(forward) or not len(backward):
        return EMPTY
    following = np.searchsorted(backward.start, forward.end)
    has_next = following < len(backward)
    begins = forward.end[has_next]
    ends = backward.start[following[has_next]]
    later = np.searchsorted(forward.start, begins)
    another = np.append(forward.start, np.iinfo(np.int64).max)[later]
    kept = (ends > begins) & (another >= ends)
    return union(begins[kept], ends[kept])


@trace_fact
def host_phases(analysis: TraceAnalysis) -> Mapping[str, int]:
    """By phase of the training thread, and ``other``: its time in a mean steady step of the trace,
    ns.

    Raises:
        UnknownError: the trace has no steps, or our agent did not mark its phases.
    """
    steps = trace_steps(analysis)
    if steps is None or not steps.steps or not kinds.marked(analysis.trace, FORWARD).any():
        raise UnknownError("no profiled step has its phases marked")
    return {name: part.total // steps.steps for name, part in _phases(steps).items()}


def _phases(steps: TraceSteps) -> Mapping[str, Intervals]:
    trace, within = steps.analysis.trace, steps.on_host
    found = find_phases(trace)
    phases = {name: intersect(part, within) for name, part in found.items()}
    phases[OTHER] = subtract(within, unite(EMPTY, *phases.values()))
    return phases


def _time(running: Intervals, part: Intervals) -> int:
    """How much of ``part`` is covered."""
    return int(running.within(part.start, part.end).sum())
