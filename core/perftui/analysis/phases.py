"""Phases of training on the main thread: exclusive ranges of time, by the best marks there are."""

from __future__ import annotations

from collections.abc import Mapping

from perftui.analysis import kinds
from perftui.analysis.host import Host
from perftui.analysis.intervals import EMPTY, Intervals, subtract, union, unite
from perftui.analysis.kinds import Mask
from perftui.trace.model import Trace

INPUT_WAIT = "input_wait"
FORWARD = "forward"
BACKWARD = "backward"
OPTIMIZER = "optimizer"
OPERATORS = "operators"

_PRECEDENCE = (INPUT_WAIT, OPTIMIZER, BACKWARD, FORWARD)
"""What is open inside another phase goes first: a step runs its closure's forward within."""


def find_phases(trace: Trace, host: Host) -> Mapping[str, Intervals]:
    """Exclusive phases of the main thread.

    Each phase is taken from the agent's marks where the file has them, else from what PyTorch
    itself marks: fetches of the data loader, the optimizer's step, operators of the autograd
    engine (on any thread: the main thread waits for it). PyTorch does not mark the forward pass;
    without the agent's marks the rest of the main thread's operators is ``operators``.
    """
    marked = {phase: _covered(trace, kinds.marked(trace, phase)) for phase in _PRECEDENCE}
    known = {
        INPUT_WAIT: _covered(trace, kinds.fetches(trace)),
        OPTIMIZER: _covered(trace, kinds.optimizer(trace)),
        BACKWARD: _covered(trace, kinds.backward(trace)),
        FORWARD: EMPTY,
    }
    here = trace.track == host.main_track
    operators = _covered(trace, kinds.operators(trace) & here)
    phases, taken = {}, EMPTY
    for phase in _PRECEDENCE:
        covered = marked[phase] if len(marked[phase]) else known[phase]
        phases[phase] = subtract(covered, taken)
        taken = unite(taken, covered)
    if not len(marked[FORWARD]):
        phases[OPERATORS] = subtract(operators, taken)
    return phases


def _covered(trace: Trace, rows: Mask) -> Intervals:
    return union(trace.start[rows], trace.end[rows])
