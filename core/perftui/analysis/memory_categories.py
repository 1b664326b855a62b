"""Memory by category: over the history of a snapshot, by the stacks of its allocations, and over a
trace, by the operators that allocated it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import Intervals, intersect, subtract, union, unite
from perftui.analysis.kinds import track_bounds
from perftui.analysis.memory import (
    NEVER,
    Allocations,
    Lifetimes,
    MemoryOverTime,
    Phase,
    Runs,
    categories,
    over_time,
    without_blocks,
)
from perftui.analysis.memory_snapshot import lifetimes, time_line
from perftui.trace.memory_snapshot.model import Action, EventTable, Frame, MemorySnapshot, Stacks
from perftui.trace.model import NONE, Int64, Mask, MemoryEvents, Trace

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
    phases = _StackPhases(snapshot.stacks, trace)
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


class _StackPhases:
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


_CPU = 0
"""PyTorch's number for the CPU as a type of device."""


def memory_of_trace(trace: Trace) -> tuple[MemoryOverTime, ...]:
    """Memory of each device with ``[memory]`` events, GPUs first; none where the trace has none.

    Backward is what lies within autograd's operators or what perftui marks as such, on the thread
    that took the memory; the optimizer is ``Optimizer.step#`` but for a closure's forward and
    backward pass in it; all else is forward. Files without addresses (before PyTorch 1.10) do not
    say which block is released: all of their memory is other. Parameters were made before a
    profiler starts, as a rule, and are held before the recording then.

    What a GPU held before is known by the sum that each event carries. The CPU's sum leaves out
    what was there before PyTorch's profiler was first used, and tensors in shared memory: what was
    held before is known there only as far as it is released.
    """
    events = trace.memory
    if not len(events):
        return ()
    phases = _TrackPhases(trace)
    kind = np.where(events.device_type == _CPU, NONE, events.device)
    found = np.flatnonzero(np.bincount(kind - kind.min())) + int(kind.min())
    return tuple(
        _of_device(events, np.flatnonzero(kind == each), phases, each)
        for each in sorted(found.tolist(), key=lambda each: (each == NONE, each))
    )


def _of_device(
    events: MemoryEvents, rows: Int64, phases: _TrackPhases, device: int
) -> MemoryOverTime:
    time, change, track = events.start[rows], events.change[rows], events.track[rows]
    address, allocated, reserved = (
        column[rows] for column in (events.address, events.allocated, events.reserved)
    )
    on_gpu = device != NONE
    held = reserved if on_gpu and not (reserved == NONE).any() else None
    before = int(allocated[0] - change[0]) if on_gpu and allocated[0] != NONE else None
    if (address == NONE).any():
        return without_blocks(device, time, change, before, held)
    lives = Lifetimes.of(address, change > 0, change < 0)
    seen = lives.first != NONE
    first, last = np.where(seen, lives.first, 0), np.minimum(lives.last, len(rows) - 1)
    phase, of_module = phases.at(time[first], track[first])
    made = Allocations(
        taken=time[first],
        released=np.where(lives.last < len(rows), time[last], NEVER),
        phase=np.where(seen, phase, Phase.UNKNOWN),
        of_module=of_module,
        of_state=np.zeros(len(first), np.bool_),
    )
    return over_time(
        device=device,
        time=time,
        sizes=np.abs(change),
        lives=lives,
        category=categories(made, phases.runs),
        before=before,
        reserved=held,
    )


class _TrackPhases:
    """When each thread was in which phase."""

    def __init__(self, trace: Trace) -> None:
        self._of_track: dict[int, tuple[Intervals, Intervals, Intervals]] = {}
        backward = kinds.backward(trace) | kinds.marked(trace, "backward")
        optimizer = kinds.optimizer_steps(trace)
        forward = kinds.module_calls(trace) | kinds.marked(trace, "forward")
        bounds = track_bounds(trace)
        marks: list[tuple[Int64, Phase]] = []
        operators = kinds.operators(trace)
        for number, track in enumerate(trace.tracks):
            rows = slice(int(bounds[number]), int(bounds[number + 1]))
            if track.is_device or not operators[rows].any():
                continue
            back = _covered(trace, rows, backward)
            steps = _without_closures(_covered(trace, rows, optimizer), back)
            self._of_track[number] = back, steps, _covered(trace, rows, forward)
            starts = trace.start[rows][operators[rows]]
            script = starts[~back.holds(starts) & ~steps.holds(starts)]
            marks += [
                (back.start, Phase.BACKWARD),
                (steps.start, Phase.OPTIMIZER),
                (script, Phase.FORWARD),
            ]
        self.runs = Runs.of(*_joined(marks))

    def at(self, time: Int64, track: Int64) -> tuple[Int64, Mask]:
        """The phase at each time on a track, and whether a module was called then."""
        phase = np.full(len(time), int(Phase.UNKNOWN), np.int64)
        of_module = np.zeros(len(time), np.bool_)
        for number, (back, steps, calls) in self._of_track.items():
            own = np.flatnonzero(track == number)
            when = time[own]
            in_step = np.where(steps.holds(when), Phase.OPTIMIZER, Phase.FORWARD)
            phase[own] = np.where(back.holds(when), Phase.BACKWARD, in_step)
            of_module[own] = calls.holds(when)
        return phase, of_module


def _covered(trace: Trace, rows: slice, chosen: Mask) -> Intervals:
    own = chosen[rows]
    return union(trace.start[rows][own], trace.ends_of(rows)[own])


def _without_closures(steps: Intervals, backward: Intervals) -> Intervals:
    """Of steps that hold a backward pass what comes after it: their closure ran before."""
    inside = intersect(steps, backward)
    if not len(inside):
        return steps
    at = np.searchsorted(steps.start, inside.start, side="right") - 1
    return subtract(steps, unite(union(steps.start[at], inside.end)))


def _joined(marks: list[tuple[Int64, Phase]]) -> Iterator[Int64]:
    times = [time for time, _ in marks] or [np.zeros(0, np.int64)]
    phases = [np.full(len(time), int(phase)) for time, phase in marks] or [np.zeros(0, np.int64)]
    yield np.concatenate(times)
    yield np.concatenate(phases)
