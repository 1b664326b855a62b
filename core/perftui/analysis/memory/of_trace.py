"""Memory by category over a trace, by the operators that allocated it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.by_track import Mask, track_bounds
from perftui.analysis.intervals import Intervals, intersect, subtract, union, unite
from perftui.analysis.memory.by_lifetime import NEVER, Allocations, Phase, Runs, categories
from perftui.analysis.memory.lifetimes import Lifetimes
from perftui.analysis.memory.over_time import MemoryOverTime, over_time, without_blocks
from perftui.trace.model import NONE, Int64, MemoryEvents, Trace

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
    phases = _Phases(trace)
    kind = np.where(events.device_type == _CPU, NONE, events.device)
    found = np.flatnonzero(np.bincount(kind - kind.min())) + int(kind.min())
    return tuple(
        _of_device(events, np.flatnonzero(kind == each), phases, each)
        for each in sorted(found.tolist(), key=lambda each: (each == NONE, each))
    )


def _of_device(events: MemoryEvents, rows: Int64, phases: _Phases, device: int) -> MemoryOverTime:
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


class _Phases:
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
