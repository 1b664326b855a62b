"""Memory by category: over the history of a snapshot, by the stacks of its allocations, and over a
trace, by the operators that allocated it."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import Intervals, intersect, subtract, union, unite
from perftui.analysis.kinds import track_bounds
from perftui.analysis.memory_snapshot import Lifetimes, lifetimes, time_line
from perftui.trace.memory_snapshot import Action, EventTable, Frame, MemorySnapshot
from perftui.trace.model import NONE, Int64, Mask, MemoryEvents, Trace


class Category(enum.IntEnum):
    """What memory is for; ``by_lifetime`` says how each is recognised."""

    BEFORE = 0
    """Held when the recording began: what for is not known."""
    PARAMETERS = 1
    OPTIMIZER = 2
    """The optimizer's state."""
    GRADIENTS = 3
    ACTIVATIONS = 4
    """Made by the forward pass and held for the backward pass."""
    TEMPORARY = 5
    """Released in the same forward pass, backward pass or optimizer step that took it."""
    OTHER = 6
    """No evidence what it is for."""

    @property
    def label(self) -> str:
        """What it is called on screen and in reports."""
        known = {
            Category.BEFORE: "held before the recording",
            Category.OPTIMIZER: "optimizer state",
        }
        return known.get(self, self.name.lower())


@dataclass(frozen=True)
class CategoryUse:
    """What one category held at the peak."""

    category: Category
    bytes: int
    blocks: int | None
    """None where they were not seen: of what was held before the recording, and of files that do
    not name blocks."""


@dataclass(frozen=True, eq=False)
class Columns:
    """A step function in columns of equal width: each shows the highest moment within it."""

    parts: Int64
    """A row for each ``Category``, a column for each of the chart; they sum to the level."""
    reserved: Int64 | None
    """Held by the allocator at the same moments; None where it is not known."""
    peak: int
    """The column of the peak."""


@dataclass(frozen=True, eq=False)
class MemoryOverTime:
    """Bytes held on one device: a point for the start and one for each event that changes them.

    ``parts[:, i]`` holds from ``time[i]`` until ``time[i + 1]``.
    """

    device: int
    """NONE for the CPU."""
    time: Int64
    """ns, never falling; numbers of events where ``timed`` is False."""
    parts: Int64
    """A row for each ``Category``; their sum is the level."""
    peak_blocks: tuple[int, ...]
    """Blocks at the peak of which the allocation was seen, by category."""
    reserved: Int64 | None = None
    """Held by the caching allocator at each point; None where it is not known."""
    timed: bool = True
    absolute: bool = True
    """Whether what was held before the recording is known; else it may have been more."""

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def level(self) -> Int64:
        """Bytes held at each point."""
        total: Int64 = self.parts.sum(axis=0)
        return total

    @cached_property
    def peak(self) -> int:
        """The first point at which most is held."""
        return int(np.argmax(self.level))

    @cached_property
    def has_categories(self) -> bool:
        """Whether anything is known to be for something."""
        known = self.parts[Category.PARAMETERS : Category.OTHER]
        return bool(known.any())

    @property
    def span(self) -> int:
        """From the first point to the last, in the unit of ``time``."""
        return int(self.time[-1] - self.time[0])

    def at_peak(self) -> tuple[CategoryUse, ...]:
        """Categories that hold something at the peak, in order; they sum to the level."""
        sizes = self.parts[:, self.peak].tolist()
        return tuple(
            CategoryUse(category, size, blocks or None)
            for category, size, blocks in zip(Category, sizes, self.peak_blocks, strict=True)
            if size
        )

    def columns(self, count: int) -> Columns:
        """The whole time in ``count`` columns, each at the highest moment within it.

        A moment on the edge of two columns counts in both, so the peak is in one of them.
        """
        steps = np.arange(count + 1) * (self.span / count)
        edges = self.time[0] + np.rint(steps).astype(np.int64)
        begin = np.searchsorted(self.time, edges[:-1], side="left")
        begin -= self.time[np.minimum(begin, len(self) - 1)] > edges[:-1]
        end = np.maximum(np.searchsorted(self.time, edges[1:], side="right"), begin + 1)
        level = self.level
        shown = np.array(
            [one + int(np.argmax(level[one : end[at]])) for at, one in enumerate(begin.tolist())]
        )
        reserved = None if self.reserved is None else self.reserved[shown]
        return Columns(self.parts[:, shown], reserved, int(np.argmax(level[shown])))


def over_time(
    device: int,
    time: Int64,
    sizes: Int64,
    lives: Lifetimes,
    category: Int64,
    before: int | None,
    reserved: Int64 | None = None,
    timed: bool = True,
) -> MemoryOverTime:
    """Replay the blocks of events at ``time``, of ``sizes`` bytes each, at least one event.

    ``category`` has one entry for each of ``lives``; blocks without a seen allocation are held
    before the recording. ``before`` is all that was held then, None where that is not known: then
    it is what was released of it. ``reserved`` has an entry for each event, which tells what is
    held after it, or one more, the first of which is of the start.
    """
    rows, seen = len(time), lives.first != NONE
    first, last = lives.first[seen], lives.last[seen]
    freed_older = lives.last[~seen]
    older = int(sizes[freed_older].sum())
    known = before is not None and before >= older
    changes = np.zeros((len(Category), rows + 1), np.int64)
    changes[Category.BEFORE, 0] = before if before is not None and known else older
    changes[Category.BEFORE, freed_older + 1] -= sizes[freed_older]
    # An event takes one block at most and ends one at most, so no index comes twice.
    changes[category[seen], first + 1] += sizes[first]
    ended = last < rows
    changes[category[seen][ended], last[ended] + 1] -= sizes[first[ended]]
    parts = np.cumsum(changes, axis=1)
    peak = int(np.argmax(parts.sum(axis=0))) - 1
    held = (first <= peak) & (last > peak)
    blocks = np.bincount(category[seen][held], minlength=len(Category))
    return MemoryOverTime(
        device=device,
        time=_with_start(np.maximum.accumulate(time)),
        parts=parts,
        peak_blocks=tuple(blocks.tolist()),
        reserved=reserved if reserved is None or len(reserved) > rows else _with_start(reserved),
        timed=timed,
        absolute=known,
    )


def without_blocks(
    device: int, time: Int64, change: Int64, before: int | None, reserved: Int64 | None
) -> MemoryOverTime:
    """Memory of which only the changes are known, not the blocks: all of it is other.

    Where what was held before is not known either, it is what makes the lowest level 0.
    """
    level = np.concatenate([[0], np.cumsum(change)])
    lowest = -int(level.min())
    known = before is not None and before >= lowest
    parts = np.zeros((len(Category), len(level)), np.int64)
    parts[Category.OTHER] = level + (before if before is not None and known else lowest)
    return MemoryOverTime(
        device=device,
        time=_with_start(np.maximum.accumulate(time)),
        parts=parts,
        peak_blocks=(0,) * len(Category),
        reserved=None if reserved is None else _with_start(reserved),
        absolute=known,
    )


def _with_start(column: Int64) -> Int64:
    """One entry for each event, with that of the start before them."""
    whole: Int64 = np.concatenate([column[:1], column])
    return whole


NEVER = np.iinfo(np.int64).max
"""When memory is released that is still held as the recording ends."""


class Phase(enum.IntEnum):
    """What the training did."""

    UNKNOWN = 0
    SETUP = 1
    """A module was made, moved to a device or changed in type."""
    FORWARD = 2
    """Anything in the script that is none of the others."""
    BACKWARD = 3
    OPTIMIZER = 4


@dataclass(frozen=True, eq=False)
class Allocations:
    """Allocations on one axis of time, which may be the number of the event; equal lengths."""

    taken: Int64
    released: Int64
    """``NEVER`` where it is still held as the recording ends."""
    phase: Int64
    """A ``Phase``."""
    of_module: Mask
    """Taken within a call of an ``nn.Module``."""
    of_state: Mask
    """Taken where torch's optimizers make their state."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Phases one after the other: each lasts until the next begins, the last one for ever."""

    start: Int64
    phase: Int64

    @classmethod
    def of(cls, time: Int64, phase: Int64) -> Runs:
        """Runs of equal phases, of marks in any order; unknown ones are left out."""
        known = phase != Phase.UNKNOWN
        order = np.argsort(time[known], kind="stable")
        time, phase = time[known][order], phase[known][order]
        begins = np.ones(len(time), np.bool_)
        begins[1:] = phase[1:] != phase[:-1]
        return cls(time[begins], phase[begins])

    def end_of(self, times: Int64) -> Int64:
        """When the run ends that each of ``times`` lies in; ``NEVER`` for the last."""
        ends: Int64 = np.append(self.start, NEVER)[np.searchsorted(self.start, times, "right")]
        return ends

    def next_start(self, phase: Phase, times: Int64) -> Int64:
        """When the first run of ``phase`` after each of ``times`` begins; ``NEVER`` without one."""
        starts = self.start[self.phase == phase]
        return np.append(starts, NEVER)[np.searchsorted(starts, times, "right")]


def categories(made: Allocations, runs: Runs, cut: bool = False) -> Int64:
    """The ``Category`` of each allocation; ``cut`` says that the last phase was not at its end.

    - optimizer state: taken in an optimizer step and held longer than it, or taken where torch's
      optimizers make their state. What is held where a step was cut off is other.
    - gradients: taken in a backward pass and held longer, or as it is cut off.
    - parameters: taken as a module is made or moved, and held longer than that.
    - activations: taken in a forward pass, held as the next backward pass begins, and released
      within it. So is what a module's call made and the script holds on to, until the backward
      pass after that at most: the model's output. Where no backward pass follows in the recording
      it is what a module's call made and is held at its end.
    - temporary: released before the phase that took it ends, or the backward pass begins.
    - other: all else, such as batches, losses that are kept, and whatever no phase is known of.
    """
    found = np.full(len(made.taken), int(Category.OTHER), np.int64)
    end = runs.end_of(made.taken)
    outlives = made.released >= end
    for phase, category in _LASTING.items():
        own = made.phase == phase
        found[own & outlives] = category
        found[own & ~outlives] = Category.TEMPORARY
    if cut:
        found[(made.phase == Phase.OPTIMIZER) & (end == NEVER) & outlives] = Category.OTHER
    found[made.of_state] = Category.OPTIMIZER
    forward = made.phase == Phase.FORWARD
    begins = runs.next_start(Phase.BACKWARD, made.taken)
    followed = begins != NEVER
    ends = np.where(followed, runs.end_of(begins), NEVER)
    again = np.where(followed, runs.next_start(Phase.BACKWARD, begins), NEVER)
    released = made.released != NEVER
    in_backward = followed & (made.released >= begins) & released & (made.released <= ends)
    # A pass that the recording ends in has no end: what a module made is still held for it.
    in_backward |= made.of_module & followed & (ends == NEVER) & ~released
    kept = made.of_module & (made.released >= begins) & (made.released <= again)
    kept &= released | (again == NEVER)
    found[forward & (made.released < begins)] = Category.TEMPORARY
    found[forward & ~followed & released] = Category.TEMPORARY
    found[forward & ~followed & ~released & made.of_module] = Category.ACTIVATIONS
    found[forward & (in_backward | (followed & kept))] = Category.ACTIVATIONS
    return found


_LASTING = {
    Phase.SETUP: Category.PARAMETERS,
    Phase.BACKWARD: Category.GRADIENTS,
    Phase.OPTIMIZER: Category.OPTIMIZER,
}
"""What is held longer than the phase that took it."""


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
    # One more than there are stacks: NONE, which is -1, finds the last.
    found = np.zeros((len(snapshot.stacks) + 1, 3), np.int64)
    for stack in set(trace.stack[trace.action == Action.ALLOC].tolist()) - {NONE}:
        found[stack] = _phase(snapshot.stacks.of(stack))
    found[NONE, 0] = Phase.BACKWARD if found[:, 0].any() else Phase.UNKNOWN
    phase, of_module, of_state = found[trace.stack].T
    made = Allocations(
        taken=np.where(seen, lives.first, 0),
        released=np.where(lives.last < rows, lives.last, NEVER),
        phase=np.where(seen, phase[lives.first], Phase.UNKNOWN),
        of_module=of_module[lives.first] > 0,
        of_state=(of_state[lives.first] > 0) & seen,
    )
    taken = np.flatnonzero(trace.action == Action.ALLOC)
    runs = Runs.of(taken, phase[taken])
    # Whether memory ran out in the last phase.
    failed = np.flatnonzero(trace.action == Action.OOM)
    is_cut = bool(len(failed) and len(runs.start) and failed[-1] >= runs.start[-1])
    return over_time(
        device=device,
        time=trace.time if line.timed else np.arange(rows),
        sizes=trace.size,
        lives=lives,
        category=categories(made, runs, is_cut),
        before=int(line.bytes[0]) if line.absolute else None,
        reserved=_reserved(snapshot, trace),
        timed=line.timed,
    )


def _phase(frames: tuple[Frame, ...]) -> tuple[Phase, bool, bool]:
    """The phase, whether a module was called, whether an optimizer made its state."""
    in_module = any(_is_call(frame) for frame in frames)
    for frame in frames:
        is_python = frame.function in _BACKWARD_CALLS and _BACKWARD.search(frame.filename)
        if is_python or _ENGINE.match(frame.function):
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
            steps = _covered(trace, rows, optimizer)
            # Of steps that hold a backward pass what comes after it: their closure ran before.
            if len(inside := intersect(steps, back)):
                at = np.searchsorted(steps.start, inside.start, side="right") - 1
                steps = subtract(steps, unite(union(steps.start[at], inside.end)))
            self._of_track[number] = back, steps, _covered(trace, rows, forward)
            starts = trace.start[rows][operators[rows]]
            script = starts[~back.holds(starts) & ~steps.holds(starts)]
            marks += [
                (back.start, Phase.BACKWARD),
                (steps.start, Phase.OPTIMIZER),
                (script, Phase.FORWARD),
            ]
        none = np.zeros(0, np.int64)
        times = np.concatenate([none, *(time for time, _ in marks)])
        phases = np.concatenate([none, *(np.full(len(time), int(one)) for time, one in marks)])
        self.runs = Runs.of(times, phases)

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
