"""Memory by category: of a snapshot's history by allocation stacks, of a trace by allocating
operators."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import Intervals, intersect, subtract, union, unite
from perftui.analysis.kinds import track_bounds
from perftui.analysis.memory_snapshot import PYTHON, Lifetimes, lifetimes, time_line
from perftui.trace.memory_snapshot import Action, EventTable, Frame, MemorySnapshot
from perftui.trace.model import NONE, Int64, Mask, MemoryEvents, Trace


class Category(enum.IntEnum):
    """Purpose of memory; see ``categories`` for how each is recognised."""

    BEFORE = 0
    """Held when the recording began, for an unknown purpose."""
    PARAMETERS = 1
    OPTIMIZER = 2
    """The optimizer's state."""
    GRADIENTS = 3
    ACTIVATIONS = 4
    """Made by the forward pass and held for the backward pass."""
    TEMPORARY = 5
    """Released in the same forward pass, backward pass or optimizer step that took it."""
    OTHER = 6
    """Of unknown purpose."""

    @property
    def label(self) -> str:
        """Name on screen and in reports."""
        labels = {
            Category.BEFORE: "held before the recording",
            Category.OPTIMIZER: "optimizer state",
        }
        return labels.get(self, self.name.lower())


@dataclass(frozen=True)
class CategoryUse:
    """Memory of one category at the peak."""

    category: Category
    bytes: int
    blocks: int | None
    """None if unknown: of memory from before the recording, and in files without blocks."""


@dataclass(frozen=True, eq=False)
class Columns:
    """A step function in columns of equal width, each with the highest level within it."""

    parts: Int64
    """A row for each ``Category``, a column for each of the chart; they sum to the level."""
    reserved: Int64 | None
    """Memory reserved by the allocator at the same moments; None if unknown."""
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
    """ns, never falling; event numbers if ``timed`` is False."""
    parts: Int64
    """A row for each ``Category``; their sum is the level."""
    peak_blocks: tuple[int, ...]
    """Number of blocks at the peak with a seen allocation, by category."""
    reserved: Int64 | None = None
    """Memory reserved by the caching allocator at each point; None if unknown."""
    timed: bool = True
    absolute: bool = True
    """Whether memory from before the recording is known; else it may have been more."""

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def level(self) -> Int64:
        """Bytes held at each point."""
        total: Int64 = self.parts.sum(axis=0)
        return total

    @cached_property
    def peak(self) -> int:
        """Index of the first point with most memory."""
        return int(np.argmax(self.level))

    @cached_property
    def has_categories(self) -> bool:
        """Whether the purpose of any memory is known."""
        return bool(self.parts[Category.PARAMETERS : Category.OTHER].any())

    @property
    def span(self) -> int:
        """From the first point to the last, in units of ``time``."""
        return int(self.time[-1] - self.time[0])

    def at_peak(self) -> tuple[CategoryUse, ...]:
        """Categories with memory at the peak, in order; they sum to the level."""
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
            [low + int(np.argmax(level[low : end[at]])) for at, low in enumerate(begin.tolist())]
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

    ``category`` has an entry for each of ``lives``; blocks without a seen allocation count as held
    before the recording. ``before`` is the memory held then; if None, it is what was released of
    it. ``reserved`` has an entry for each event, with the memory after it, or one more at the
    front, for the start.
    """
    rows, seen = len(time), lives.first != NONE
    first, last = lives.first[seen], lives.last[seen]
    freed_older = lives.last[~seen]
    older = int(sizes[freed_older].sum())
    is_known = before is not None and before >= older
    changes = np.zeros((len(Category), rows + 1), np.int64)
    changes[Category.BEFORE, 0] = before if before is not None and is_known else older
    changes[Category.BEFORE, freed_older + 1] -= sizes[freed_older]
    # An event allocates at most one block and ends at most one, so no index comes twice.
    changes[category[seen], first + 1] += sizes[first]
    ended = last < rows
    changes[category[seen][ended], last[ended] + 1] -= sizes[first[ended]]
    parts = np.cumsum(changes, axis=1)
    peak = int(np.argmax(parts.sum(axis=0))) - 1
    alive = (first <= peak) & (last > peak)
    blocks = np.bincount(category[seen][alive], minlength=len(Category))
    return MemoryOverTime(
        device=device,
        time=_with_start(np.maximum.accumulate(time)),
        parts=parts,
        peak_blocks=tuple(blocks.tolist()),
        reserved=reserved if reserved is None or len(reserved) > rows else _with_start(reserved),
        timed=timed,
        absolute=is_known,
    )


def without_blocks(
    device: int, time: Int64, change: Int64, before: int | None, reserved: Int64 | None
) -> MemoryOverTime:
    """Memory with only its changes known, not its blocks: all of it is other.

    If ``before`` is unknown, it is set so that the lowest level is 0.
    """
    level = np.concatenate([[0], np.cumsum(change)])
    lowest = -int(level.min())
    is_known = before is not None and before >= lowest
    parts = np.zeros((len(Category), len(level)), np.int64)
    parts[Category.OTHER] = level + (before if before is not None and is_known else lowest)
    return MemoryOverTime(
        device=device,
        time=_with_start(np.maximum.accumulate(time)),
        parts=parts,
        peak_blocks=(0,) * len(Category),
        reserved=None if reserved is None else _with_start(reserved),
        absolute=is_known,
    )


def _with_start(column: Int64) -> Int64:
    """A column of events with an entry for the start put before it."""
    return np.concatenate([column[:1], column])


NEVER = np.iinfo(np.int64).max
"""Release time of memory still held at the end of the recording."""


class Phase(enum.IntEnum):
    """Activity of the training."""

    UNKNOWN = 0
    SETUP = 1
    """A module was made, moved to a device or changed in type."""
    FORWARD = 2
    """Anything else in the script."""
    BACKWARD = 3
    OPTIMIZER = 4


@dataclass(frozen=True, eq=False)
class Allocations:
    """Allocations over time, which may be event numbers; columns of equal length."""

    taken: Int64
    released: Int64
    """``NEVER`` if still held at the end of the recording."""
    phase: Int64
    """A ``Phase``."""
    of_module: Mask
    """Allocated within a call of an ``nn.Module``."""
    of_state: Mask
    """Allocated where torch's optimizers make their state."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Consecutive phases: each lasts until the next begins, the last one for ever."""

    start: Int64
    phase: Int64

    @classmethod
    def of(cls, time: Int64, phase: Int64) -> Runs:
        """Runs of equal phases, from marks in any order without unknown phases."""
        valid = phase != Phase.UNKNOWN
        order = np.argsort(time[valid], kind="stable")
        time, phase = time[valid][order], phase[valid][order]
        begins = np.ones(len(time), np.bool_)
        begins[1:] = phase[1:] != phase[:-1]
        return cls(time[begins], phase[begins])

    def end_of(self, times: Int64) -> Int64:
        """End of the run that contains each of ``times``; ``NEVER`` for the last run."""
        return np.append(self.start, NEVER)[np.searchsorted(self.start, times, "right")]

    def next_start(self, phase: Phase, times: Int64) -> Int64:
        """Start of the first run of ``phase`` after each of ``times``; ``NEVER`` without one."""
        starts = self.start[self.phase == phase]
        return np.append(starts, NEVER)[np.searchsorted(starts, times, "right")]


def categories(blocks: Allocations, runs: Runs, cut: bool = False) -> Int64:
    """The ``Category`` of each allocation; ``cut`` means that the last phase did not end.

    - optimizer state: allocated in an optimizer step and held beyond it, or where torch's
      optimizers make their state. In a step that was cut off, held memory is other.
    - gradients: allocated in a backward pass and held beyond it, or when it is cut off.
    - parameters: allocated while a module is made or moved, and held beyond that.
    - activations: allocated in a forward pass, held when the next backward pass begins, and
      released within it. Also the model's output: memory from a module's call that the script
      holds until the backward pass after that at most. If no backward pass follows in the
      recording, memory from a module's call that is held at its end.
    - temporary: released before its phase ends, or the backward pass begins.
    - other: everything else, such as batches, kept losses, and memory of unknown phase.
    """
    result = np.full(len(blocks.taken), int(Category.OTHER), np.int64)
    end = runs.end_of(blocks.taken)
    outlives = blocks.released >= end
    for phase, category in _LASTING.items():
        own = blocks.phase == phase
        result[own & outlives] = category
        result[own & ~outlives] = Category.TEMPORARY
    if cut:
        result[(blocks.phase == Phase.OPTIMIZER) & (end == NEVER) & outlives] = Category.OTHER
    result[blocks.of_state] = Category.OPTIMIZER
    forward = blocks.phase == Phase.FORWARD
    begins = runs.next_start(Phase.BACKWARD, blocks.taken)
    followed = begins != NEVER
    ends = np.where(followed, runs.end_of(begins), NEVER)
    again = np.where(followed, runs.next_start(Phase.BACKWARD, begins), NEVER)
    released = blocks.released != NEVER
    in_backward = followed & (blocks.released >= begins) & released & (blocks.released <= ends)
    # A pass cut off by the end of the recording: memory of modules is still held for it.
    in_backward |= blocks.of_module & followed & (ends == NEVER) & ~released
    output = blocks.of_module & (blocks.released >= begins) & (blocks.released <= again)
    output &= released | (again == NEVER)
    result[forward & (blocks.released < begins)] = Category.TEMPORARY
    result[forward & ~followed & released] = Category.TEMPORARY
    result[forward & ~followed & ~released & blocks.of_module] = Category.ACTIVATIONS
    result[forward & (in_backward | (followed & output))] = Category.ACTIVATIONS
    return result


_LASTING = {
    Phase.SETUP: Category.PARAMETERS,
    Phase.BACKWARD: Category.GRADIENTS,
    Phase.OPTIMIZER: Category.OPTIMIZER,
}
"""Category of memory held beyond the phase that allocated it."""


_SEGMENTS = {
    Action.SEGMENT_ALLOC: 1,
    Action.SEGMENT_MAP: 1,
    Action.SEGMENT_FREE: -1,
    Action.SEGMENT_UNMAP: -1,
}
"""Sign of each event's size in the memory that the allocator got from the driver."""

_ENGINE = re.compile(r"torch::autograd::(Engine|python::PythonEngine)::")
_BACKWARD = re.compile(r"[\\/]torch[\\/](_tensor|autograd[\\/](__init__|graph|function))\.py$")
_BACKWARD_CALLS = frozenset({"backward", "grad", "_engine_run_backward", "apply"})
_OPTIMIZER = re.compile(r"[\\/]torch[\\/]optim[\\/]")
_MODULE = re.compile(r"[\\/]torch[\\/]nn[\\/]modules[\\/]module\.py$")
_CALLS = frozenset({"_call_impl", "_wrapped_call_impl", "_slow_forward"})
_MOVES = frozenset({"_apply", "to", "cuda", "half", "float", "bfloat16", "double", "to_empty"})
_MAKES = re.compile(r"[\\/]torch[\\/]nn[\\/](modules[\\/]\w+|init|parameter)\.py$")


def memory_of_snapshot(snapshot: MemorySnapshot, device: int) -> MemoryOverTime | None:
    """Memory requested by the program on one device; None without a history.

    The phase is the innermost call in a stack that shows one: torch's optimizers (also its wrappers
    of the step of the script's own optimizers), a module's call, a call that moves or makes one,
    else the script, which counts as forward. An autograd call anywhere in the stack is backward, as
    a checkpoint calls modules again there. autograd's threads run no Python: if other allocations
    have Python stacks, one without any frame is theirs. Without stacks nothing is distinguished.
    The training thread takes the snapshot after the last phase; only if memory runs out, within it.
    """
    trace = snapshot.trace_of(device)
    if trace is None or not len(trace):
        return None
    lives, line = lifetimes(trace), time_line(snapshot, device)
    rows = len(trace)
    seen = lives.first != NONE
    # One more than there are stacks: index NONE, which is -1, is the last.
    phases = np.zeros((len(snapshot.stacks) + 1, 3), np.int64)
    for stack in set(trace.stack[trace.action == Action.ALLOC].tolist()) - {NONE}:
        phases[stack] = _phase(snapshot.stacks.of(stack))
    phases[NONE, 0] = Phase.BACKWARD if phases[:, 0].any() else Phase.UNKNOWN
    phase, of_module, of_state = phases[trace.stack].T
    blocks = Allocations(
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
        category=categories(blocks, runs, is_cut),
        before=int(line.bytes[0]) if line.absolute else None,
        reserved=_reserved(snapshot, trace),
        timed=line.timed,
    )


def _phase(frames: tuple[Frame, ...]) -> tuple[Phase, bool, bool]:
    """The phase, whether a module was called, and whether an optimizer made its state."""
    in_module = any(_is_call(frame) for frame in frames)
    for frame in frames:
        is_python = frame.function in _BACKWARD_CALLS and _BACKWARD.search(frame.filename)
        if is_python or _ENGINE.match(frame.function):
            return Phase.BACKWARD, in_module, False
    for frame in frames:
        if _OPTIMIZER.search(frame.filename):
            inner = (outer.function for outer in frames if _OPTIMIZER.search(outer.filename))
            return Phase.OPTIMIZER, False, "_init_group" in inner
        if _is_call(frame):
            return Phase.FORWARD, True, False
        if _is_setup(frame):
            return Phase.SETUP, False, False
    has_python = any(PYTHON.search(frame.filename) for frame in frames)
    return (Phase.FORWARD if has_python else Phase.UNKNOWN), False, False


def _is_call(frame: Frame) -> bool:
    return frame.function in _CALLS and _MODULE.search(frame.filename) is not None


def _is_setup(frame: Frame) -> bool:
    if _MODULE.search(frame.filename):
        return frame.function in _MOVES
    makes = frame.function == "__init__" or "init" in frame.function or "reset" in frame.function
    return makes and _MAKES.search(frame.filename) is not None


def _reserved(snapshot: MemorySnapshot, trace: EventTable) -> Int64 | None:
    """Memory got from the driver at the start and after each event; None if unknown."""
    changes = np.zeros(len(trace) + 1, np.int64)
    for action, sign in _SEGMENTS.items():
        changes[1:] += sign * np.where(trace.action == action, trace.size, 0)
    own = snapshot.segments.device == trace.device
    levels = np.cumsum(changes)
    levels += int(snapshot.segments.reserved[own].sum()) - int(levels[-1])
    is_known = trace.whole and snapshot.segments.whole and own.any() and int(levels.min()) >= 0
    return levels if is_known else None


_CPU = 0
"""PyTorch's device type number of the CPU."""


def memory_of_trace(trace: Trace) -> tuple[MemoryOverTime, ...]:
    """Memory of each device with ``[memory]`` events, GPUs first; empty without any.

    Backward is time within autograd's operators or perftui's marks of it, on the allocating thread;
    the optimizer is ``Optimizer.step#`` without a closure's forward and backward pass in it;
    everything else is forward. Files without addresses (before PyTorch 1.10) do not identify
    released blocks: all of their memory is other. Parameters are usually made before a profiler
    starts, and then count as held before the recording.

    A GPU's memory before the recording follows from the sum in each event. The CPU's sum excludes
    memory from before PyTorch's profiler was first used, and tensors in shared memory: its memory
    before the recording is only known as far as it is released.
    """
    events = trace.memory
    if not len(events):
        return ()
    phases = _TrackPhases(trace)
    kind = np.where(events.device_type == _CPU, NONE, events.device)
    numbers = np.flatnonzero(np.bincount(kind - kind.min())) + int(kind.min())
    return tuple(
        _of_device(events, np.flatnonzero(kind == number), phases, number)
        for number in sorted(numbers.tolist(), key=lambda number: (number == NONE, number))
    )


def _of_device(
    events: MemoryEvents, rows: Int64, phases: _TrackPhases, device: int
) -> MemoryOverTime:
    time, change, track = events.start[rows], events.change[rows], events.track[rows]
    address, allocated, reserved = (
        column[rows] for column in (events.address, events.allocated, events.reserved)
    )
    on_gpu = device != NONE
    levels = reserved if on_gpu and not (reserved == NONE).any() else None
    before = int(allocated[0] - change[0]) if on_gpu and allocated[0] != NONE else None
    if (address == NONE).any():
        return without_blocks(device, time, change, before, levels)
    lives = Lifetimes.of(address, change > 0, change < 0)
    seen = lives.first != NONE
    first, last = np.where(seen, lives.first, 0), np.minimum(lives.last, len(rows) - 1)
    phase, of_module = phases.at(time[first], track[first])
    blocks = Allocations(
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
        category=categories(blocks, phases.runs),
        before=before,
        reserved=levels,
    )


class _TrackPhases:
    """Times of the phases of each thread."""

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
            # Of steps that hold a backward pass, only the time after it: their closure ran before.
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
        phases = np.concatenate([none, *(np.full(len(time), int(phase)) for time, phase in marks)])
        self.runs = Runs.of(times, phases)

    def at(self, time: Int64, track: Int64) -> tuple[Int64, Mask]:
        """The phase at each time on a track, and whether a module was being called."""
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
