"""Memory by category over the history of a snapshot, by the stacks of its allocations."""

from __future__ import annotations

import re

import numpy as np

from perftui.analysis.memory.by_lifetime import (
    NEVER,
    Allocations,
    Mask,
    Phase,
    Runs,
    categories,
)
from perftui.analysis.memory.over_time import MemoryOverTime, over_time
from perftui.analysis.memory_snapshot import lifetimes, time_line
from perftui.trace.memory_snapshot.model import Action, EventTable, Frame, MemorySnapshot, Stacks
from perftui.trace.model import NONE, Int64

_SEGMENTS = {
    Action.SEGMENT_ALLOC: 1,
    Action.SEGMENT_MAP: 1,
    Action.SEGMENT_FREE: -1,
    Action.SEGMENT_UNMAP: -1,
}
"""What an event adds to the memory that the allocator got from the driver, in its size."""

_ENGINE = re.compile(r"torch::autograd::(Engine|python::PythonEngine)::")
_BACKWARD = re.compile(r"[\\/]torch[\\/](_tensor|autograd[\\/](__init__|graph|function))\.py$")
_BACKWARD_CALLS = frozenset({"backward", "grad", "_engine_run_backward", "apply"})
_OPTIMIZER = re.compile(r"[\\/]torch[\\/]optim[\\/]")
_MODULE = re.compile(r"[\\/]torch[\\/]nn[\\/]modules[\\/]module\.py$")
_CALLS = frozenset({"_call_impl", "_wrapped_call_impl", "_slow_forward"})
_MOVES = frozenset({"_apply", "to", "cuda", "half", "float", "bfloat16", "double", "to_empty"})
_MAKES = re.compile(r"[\\/]torch[\\/]nn[\\/](modules[\\/]\w+|init|parameter)\.py$")
_PYTHON = re.compile(r"\.py$|^<(?!frozen )")


def memory_of_snapshot(snapshot: MemorySnapshot, device: int) -> MemoryOverTime | None:
    """Memory as the program asked for it on one device; None without a history.

    The innermost call of a stack that shows one is the phase: torch's optimizers (also what wraps
    the step of the script's own), a call of a module, one that moves it or makes it, and else the
    script, which counts as forward. An autograd call anywhere in the stack is backward, as a
    checkpoint calls modules again there. autograd's threads run no Python: where other allocations
    have Python stacks, one without any frame is theirs. Without stacks nothing is distinguished.

    The thread that trains takes the snapshot, after the phase that was last; only as memory runs
    out it is taken within it.
    """
    trace = snapshot.trace_of(device)
    if trace is None or not len(trace):
        return None
    lives, line = lifetimes(trace), time_line(snapshot, device)
    rows = len(trace)
    seen = lives.first != NONE
    phases = _Phases(snapshot.stacks, trace)
    made = Allocations(
        taken=np.where(seen, lives.first, 0),
        released=np.where(lives.last < rows, lives.last, NEVER),
        phase=np.where(seen, phases.phase[lives.first], Phase.UNKNOWN),
        of_module=phases.of_module[lives.first],
        of_state=phases.of_state[lives.first] & seen,
    )
    taken = np.flatnonzero(trace.action == Action.ALLOC)
    runs = Runs.of(taken, phases.phase[taken])
    return over_time(
        device=device,
        time=trace.time if line.timed else np.arange(rows),
        sizes=trace.size,
        lives=lives,
        category=categories(made, runs, cut=_is_cut(trace, runs)),
        before=int(line.bytes[0]) if line.absolute else None,
        reserved=_reserved(snapshot, trace),
        timed=line.timed,
    )


def _is_cut(trace: EventTable, runs: Runs) -> bool:
    """Whether memory ran out in the last phase."""
    failed = np.flatnonzero(trace.action == Action.OOM)
    return bool(len(failed) and len(runs.start) and failed[-1] >= runs.start[-1])


class _Phases:
    """What the stack of each event says."""

    def __init__(self, stacks: Stacks, trace: EventTable) -> None:
        # One more than there are stacks: NONE, which is -1, finds the last.
        found = np.zeros((len(stacks) + 1, 3), np.int64)
        own = set(trace.stack[trace.action == Action.ALLOC].tolist()) - {NONE}
        for stack in own:
            found[stack] = _phase(stacks.of(stack))
        found[NONE, 0] = Phase.BACKWARD if found[:, 0].any() else Phase.UNKNOWN
        table = found[trace.stack]
        self.phase: Int64 = table[:, 0]
        self.of_module: Mask = table[:, 1] > 0
        self.of_state: Mask = table[:, 2] > 0


def _phase(frames: tuple[Frame, ...]) -> tuple[Phase, bool, bool]:
    """The phase, whether a module was called, whether an optimizer made its state."""
    in_module = any(_is_call(frame) for frame in frames)
    if any(_is_backward(frame) for frame in frames):
        return Phase.BACKWARD, in_module, False
    for frame in frames:
        if _OPTIMIZER.search(frame.filename):
            inner = (each.function for each in frames if _OPTIMIZER.search(each.filename))
            return Phase.OPTIMIZER, False, "_init_group" in inner
        if _is_call(frame):
            return Phase.FORWARD, True, False
        if _is_setup(frame):
            return Phase.SETUP, False, False
    has_python = any(_PYTHON.search(frame.filename) for frame in frames)
    return (Phase.FORWARD if has_python else Phase.UNKNOWN), False, False


def _is_backward(frame: Frame) -> bool:
    is_python = frame.function in _BACKWARD_CALLS and _BACKWARD.search(frame.filename)
    return bool(is_python or _ENGINE.match(frame.function))


def _is_call(frame: Frame) -> bool:
    return frame.function in _CALLS and _MODULE.search(frame.filename) is not None


def _is_setup(frame: Frame) -> bool:
    if _MODULE.search(frame.filename):
        return frame.function in _MOVES
    makes = frame.function == "__init__" or "init" in frame.function or "reset" in frame.function
    return makes and _MAKES.search(frame.filename) is not None


def _reserved(snapshot: MemorySnapshot, trace: EventTable) -> Int64 | None:
    """Memory got from the driver at the start and after each event; None where it is not known."""
    changes = np.zeros(len(trace) + 1, np.int64)
    for action, sign in _SEGMENTS.items():
        changes[1:] += sign * np.where(trace.action == action, trace.size, 0)
    own = snapshot.segments.device == trace.device
    held = np.cumsum(changes)
    held += int(snapshot.segments.reserved[own].sum()) - int(held[-1])
    is_known = trace.whole and snapshot.segments.whole and own.any() and int(held.min()) >= 0
    return held if is_known else None
