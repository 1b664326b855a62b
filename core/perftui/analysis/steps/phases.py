"""Phases of training on the main thread: exclusive ranges of time, by the best marks there are."""

from __future__ import annotations

from collections.abc import Mapping

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.host import main_track
from perftui.analysis.intervals import EMPTY, Intervals, subtract, union, unite
from perftui.analysis.kinds import Mask
from perftui.analysis.once import once
from perftui.trace.model import Trace

INPUT_WAIT = "input_wait"
FORWARD = "forward"
BACKWARD = "backward"
OPTIMIZER = "optimizer"
OPERATORS = "operators"

_PRECEDENCE = (INPUT_WAIT, OPTIMIZER, BACKWARD, FORWARD)
"""What is open inside another phase goes first: a step runs its closure's forward within."""

_DRAWN = (INPUT_WAIT, FORWARD, BACKWARD, OPTIMIZER, OPERATORS)


@once
def find_phases(trace: Trace) -> Mapping[str, Intervals]:
    """Exclusive phases of the main thread, in drawing order; those nowhere in the trace are absent.

    Each phase is taken from the agent's marks where the file has them, else from what PyTorch
    itself marks: fetches of the data loader, calls of modules (in traces with stacks), operators
    of the autograd engine (on any thread: the main thread waits for it), the optimizer's step.
    What is left of the main thread's operators, if the agent marked no forward, is ``operators``.
    """
    known = {
        INPUT_WAIT: kinds.input_wait(trace),
        OPTIMIZER: kinds.optimizer(trace),
        BACKWARD: kinds.backward(trace),
        FORWARD: kinds.modules(trace),
    }
    phases, taken = {}, EMPTY
    for phase in _PRECEDENCE:
        marked = kinds.marked(trace, phase)
        covered = _covered(trace, marked if marked.any() else known[phase])
        phases[phase] = subtract(covered, taken)
        taken = unite(taken, covered)
    if not kinds.marked(trace, FORWARD).any():
        operators = kinds.operators(trace) & (trace.track == main_track(trace))
        phases[OPERATORS] = subtract(_covered(trace, operators), taken)
    return {name: phases[name] for name in _DRAWN if name in phases and len(phases[name])}


def _covered(trace: Trace, rows: Mask) -> Intervals:
    rows = rows & kinds.believable(trace)
    return union(trace.start[rows], trace.ends_of(rows))
