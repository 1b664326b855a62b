"""Who holds the device's memory, when it was fullest, and what lies unused: from a snapshot.

A trace starts where recording started, or where its ring was overwritten: its levels are relative
to that start. The blocks that are held at the end give the level there, and so the level before.
Sizes are bytes as the program asked for them, unless a name has ``reserved`` or ``active``: those
are rounded by the allocator, to 512 bytes and more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.analysis.intervals import sums
from perftui.trace.memory_snapshot import (
    Action,
    BlockState,
    EventTable,
    Frame,
    Mask,
    MemorySnapshot,
)
from perftui.trace.model import NONE, Int32, Int64

_TORCH = re.compile(r"[\\/](?:site-packages|dist-packages|pytorch)[\\/]torch[\\/]")
"""Files of an installed torch, and of one built in its own checkout."""

_PYTHON = re.compile(r"\.py$|^<(?!frozen )")
"""Python sources, cells and strings; frames of C++ and of the interpreter have other names."""


@dataclass(frozen=True, eq=False)
class StackTotals:
    """Memory by the call stack that allocated it, most bytes first; columns of one length."""

    stack: Int32
    """Number of the stack in the snapshot, NONE where none was recorded."""
    bytes: Int64
    count: Int64
    """Blocks held, or allocations made."""

    def __len__(self) -> int:
        return len(self.stack)


@dataclass(frozen=True)
class SourceTotal:
    """Memory by a line of the user's program."""

    frame: Frame | None
    """None where no stack was recorded, or where it holds no frame outside of torch."""
    bytes: int
    count: int


@dataclass(frozen=True)
class TraceBalance:
    """How the memory held on one device changed over its trace, from the trace's start."""

    device: int
    net: int
    """At the end."""
    peak: int
    """At the highest, 0 where it never rose above the start."""
    peak_row: int
    """The event that reached it first, NONE where none did."""


@dataclass(frozen=True, eq=False)
class TimeLine:
    """Memory held on one device as a step function: ``bytes[i]`` from ``time[i]`` on."""

    time: Int64
    """Nanoseconds since the epoch, never falling; rows of the trace where it has no times."""
    bytes: Int64
    timed: bool
    absolute: bool
    """Whether ``bytes`` counts all memory held, or only what changed since the trace's start."""

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, eq=False)
class Fragmentation:
    """Memory that the allocator keeps and nobody uses, by segment, most unused first."""

    segment: Int64
    """Row of the segment table."""
    reserved: Int64
    active: Int64
    unused: Int64
    """``reserved`` minus ``active``."""
    largest_unused: Int64
    """The largest free block: a request above it needs a new segment."""

    def __len__(self) -> int:
        return len(self.segment)


def user_frame(snapshot: MemorySnapshot, stack: int) -> Frame | None:
    """The innermost Python call that is not torch's own: frames of torch and of C++ are skipped.

    None where the stack has none. Other libraries count as the user's program.
    """
    for frame in snapshot.stacks.of(stack):
        if _PYTHON.search(frame.filename) and not _TORCH.search(frame.filename):
            return frame
    return None


def by_source(snapshot: MemorySnapshot, totals: StackTotals) -> tuple[SourceTotal, ...]:
    """The bytes of ``totals`` by the user's line (``user_frame``), most first."""
    found: dict[Frame | None, tuple[int, int]] = {}
    columns = zip(totals.stack.tolist(), totals.bytes.tolist(), totals.count.tolist(), strict=True)
    for stack, size, count in columns:
        frame = user_frame(snapshot, stack)
        before = found.get(frame, (0, 0))
        found[frame] = (before[0] + size, before[1] + count)
    ordered = sorted(found.items(), key=lambda item: -item[1][0])
    return tuple(SourceTotal(frame, size, count) for frame, (size, count) in ordered)


def allocations_at_end(snapshot: MemorySnapshot, device: int) -> StackTotals:
    """What was held when the snapshot was taken, blocks that a stream still uses included."""
    held = _held(snapshot, device)
    return _totals(snapshot.blocks.stack[held], snapshot.blocks.requested[held])


def allocations_at_peak(snapshot: MemorySnapshot, device: int) -> StackTotals:
    """What was held after the event that first reached the trace's peak.

    It is known only where ``time_line`` is absolute, and its sum is the level of the time line
    there. Memory that was allocated before the trace began is held too: with its stack where it is
    still held at the end, with NONE where it was freed since.
    """
    trace = snapshot.trace_of(device)
    held = _held(snapshot, device)
    if trace is None or not len(trace):
        return allocations_at_end(snapshot, device)
    peak = trace_balance(trace).peak_row
    lives = lifetimes(trace)
    alive = (lives.first <= peak) & (lives.last > peak) & (lives.first != NONE)
    older = (lives.first == NONE) & (lives.last > peak)
    # With their stacks: blocks that were allocated in the trace and not freed count by its events.
    opened = trace.address[lives.first[lives.last == len(trace)]]
    held[held] &= ~np.isin(snapshot.blocks.address[held], opened)
    stack = np.concatenate(
        [
            trace.stack[lives.first[alive]],
            np.full(int(older.sum()), NONE, np.int32),
            snapshot.blocks.stack[held],
        ]
    )
    sizes = (
        trace.size[lives.first[alive]],
        trace.size[lives.last[older]],
        snapshot.blocks.requested[held],
    )
    return _totals(stack.astype(np.int32), np.concatenate(sizes))


def trace_balance(trace: EventTable) -> TraceBalance:
    """Net and peak of allocations minus completed frees, relative to the trace's start."""
    level = np.concatenate([[0], np.cumsum(_changes(trace))])
    row = int(np.argmax(level))
    # Of equals the first: the start, where it never rose above that.
    return TraceBalance(trace.device, int(level[-1]), int(level[row]), row - 1 if row else NONE)


def time_line(snapshot: MemorySnapshot, device: int) -> TimeLine:
    """Memory held over the trace: a point for its start and one for each change.

    It is absolute where the blocks at the end show how much was held before the trace began: all of
    them and the trace's end are needed, and of a damaged file they may be missing. Where two clocks
    of the file disagree about the order, a time is that of the latest event before it.
    """
    trace = snapshot.trace_of(device)
    if trace is None or not len(trace):
        empty = np.zeros(0, np.int64)
        return TimeLine(empty, empty, timed=False, absolute=False)
    changes = _changes(trace)
    rows = np.flatnonzero(changes)
    level = np.concatenate([np.zeros(1, np.int64), np.cumsum(changes[rows])])
    timed = trace.has_time
    times = np.maximum.accumulate(trace.time) if timed else np.arange(len(trace))
    held = _held(snapshot, device)
    base = int(snapshot.blocks.requested[held].sum()) - int(level[-1])
    # Recording that was switched off and on again misses changes: then the sum can go below zero.
    is_whole = trace.whole and snapshot.segments.whole
    is_listed = bool((snapshot.segments.device == device).any())
    absolute = is_whole and is_listed and base + int(level.min()) >= 0
    return TimeLine(
        time=np.concatenate([times[:1], times[rows]]).astype(np.int64),
        bytes=level + base if absolute else level,
        timed=timed,
        absolute=absolute,
    )


def fragmentation(snapshot: MemorySnapshot) -> Fragmentation:
    """Reserved minus active of every segment, on all devices."""
    segments, blocks = snapshot.segments, snapshot.blocks
    largest = np.zeros(len(segments), np.int64)
    free = blocks.state == BlockState.INACTIVE
    np.maximum.at(largest, blocks.segment[free], blocks.size[free])
    unused = segments.reserved - segments.active
    order = np.argsort(-unused, kind="stable").astype(np.int64)
    return Fragmentation(
        segment=order,
        reserved=segments.reserved[order],
        active=segments.active[order],
        unused=unused[order],
        largest_unused=largest[order],
    )


def lifetimes(trace: EventTable) -> Lifetimes:
    """Every block that the trace saw."""
    taken, freed = (trace.action == each for each in (Action.ALLOC, Action.FREE_COMPLETED))
    return Lifetimes.of(trace.address, taken, freed)


def _changes(trace: EventTable) -> Int64:
    taken, freed = (trace.action == each for each in (Action.ALLOC, Action.FREE_COMPLETED))
    changes: Int64 = (taken.astype(np.int64) - freed) * trace.size
    return changes


def _held(snapshot: MemorySnapshot, device: int) -> Mask:
    blocks = snapshot.blocks
    own = np.equal(snapshot.segments.device[blocks.segment], device)
    held: Mask = own & (blocks.state != BlockState.INACTIVE)
    return held


def _totals(stack: Int32, size: Int64) -> StackTotals:
    stacks, group = np.unique(stack, return_inverse=True)
    total = sums(group, size, len(stacks))
    count = np.bincount(group, minlength=len(stacks)).astype(np.int64)
    order = np.argsort(-total, kind="stable")
    return StackTotals(stacks[order].astype(np.int32), total[order], count[order])


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """Every block that a list of events saw: row of its allocation and of its release, one of which
    may be missing."""

    first: Int64
    """NONE where it was allocated before the events."""
    last: Int64
    """One behind the events where it was not released."""

    @classmethod
    def of(cls, address: npt.NDArray[Any], allocated: Mask, released: Mask) -> Lifetimes:
        """The blocks of events in their order, each of which does one of both or neither.

        An address that is handed out again without a release ends the block that had it.
        """
        rows = np.flatnonzero(allocated | released)
        rows = rows[np.argsort(address[rows], kind="stable")]
        own, alloc = address[rows], allocated[rows]
        same = np.zeros(len(rows) + 1, np.bool_)
        same[1:-1] = own[1:] == own[:-1]
        following = np.append(rows[1:], len(address))
        ends = np.where(same[1:], following, len(address))
        began = np.append(False, alloc[:-1]) & same[:-1]
        orphans = ~alloc & ~began
        first = np.concatenate([rows[alloc], np.full(int(orphans.sum()), NONE)])
        return cls(first.astype(np.int64), np.concatenate([ends[alloc], rows[orphans]]))
