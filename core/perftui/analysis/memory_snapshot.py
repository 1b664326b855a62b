"""From a snapshot: who holds the device's memory, when it was fullest, and what lies unused.

A trace starts when recording started, or where its ring was overwritten: its levels are relative to
that start. The blocks held at the end give the level there, and so the level before. Sizes are
bytes as requested by the program, unless a name has ``reserved`` or ``active``: those are rounded
by the allocator, to 512 bytes and more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.analysis.intervals import sums
from perftui.trace.memory_snapshot import Action, BlockState, EventTable, Frame, MemorySnapshot
from perftui.trace.model import NONE, Int32, Int64, Mask

_TORCH = re.compile(r"[\\/](?:site-packages|dist-packages|pytorch)[\\/]torch[\\/]")
"""Files of an installed torch, or one built in its checkout."""

PYTHON = re.compile(r"\.py$|^<(?!frozen )")
"""Python sources, cells and strings; frames of C++ and of the interpreter have other names."""


@dataclass(frozen=True, eq=False)
class StackTotals:
    """Memory by allocating call stack, most bytes first; columns of one length."""

    stack: Int32
    """Index of the stack in the snapshot; NONE if not recorded."""
    bytes: Int64
    count: Int64
    """Blocks held, or allocations made."""

    def __len__(self) -> int:
        return len(self.stack)


@dataclass(frozen=True, eq=False)
class TimeLine:
    """Memory held on one device as a step function: ``bytes[i]`` from ``time[i]`` on."""

    time: Int64
    """Nanoseconds since the epoch, never falling; trace rows if it has no times."""
    bytes: Int64
    timed: bool
    absolute: bool
    """Whether ``bytes`` counts all memory held, or only changes since the trace's start."""

    def __len__(self) -> int:
        return len(self.time)


def user_frame(snapshot: MemorySnapshot, stack: int) -> Frame | None:
    """The innermost Python call outside torch: frames of torch and of C++ are skipped.

    None without one. Other libraries count as the user's program.
    """
    for frame in snapshot.stacks.of(stack):
        if PYTHON.search(frame.filename) and not _TORCH.search(frame.filename):
            return frame
    return None


def by_source(snapshot: MemorySnapshot, totals: StackTotals) -> dict[Frame | None, tuple[int, int]]:
    """The bytes and the count of ``totals`` by the user's line (``user_frame``), most bytes first;
    None without a frame outside torch."""
    sizes: dict[Frame | None, tuple[int, int]] = {}
    columns = zip(totals.stack.tolist(), totals.bytes.tolist(), totals.count.tolist(), strict=True)
    for stack, size, count in columns:
        frame = user_frame(snapshot, stack)
        before = sizes.get(frame, (0, 0))
        sizes[frame] = (before[0] + size, before[1] + count)
    return dict(sorted(sizes.items(), key=lambda item: -item[1][0]))


def allocations_at_end(snapshot: MemorySnapshot, device: int) -> StackTotals:
    """Memory held when the snapshot was taken, including blocks still used by a stream."""
    rows = _held_blocks(snapshot, device)
    return _totals(snapshot.blocks.stack[rows], snapshot.blocks.requested[rows])


def allocations_at_peak(snapshot: MemorySnapshot, device: int) -> StackTotals:
    """Memory held after the event that first reached the trace's peak.

    Valid only if ``time_line`` is absolute; its sum is then the level of the time line there.
    Memory allocated before the trace is included: with its stack if still held at the end, with
    NONE if freed since.
    """
    trace = snapshot.trace_of(device)
    own = _held_blocks(snapshot, device)
    if trace is None or not len(trace):
        return allocations_at_end(snapshot, device)
    # Of equals the first: NONE, the start, where memory never rose above that.
    peak = int(np.argmax(trace_levels(trace))) - 1
    lives = lifetimes(trace)
    alive = (lives.first <= peak) & (lives.last > peak) & (lives.first != NONE)
    older = (lives.first == NONE) & (lives.last > peak)
    # ``own`` are blocks from before the trace: those allocated in it count by its events.
    opened = trace.address[lives.first[lives.last == len(trace)]]
    own[own] &= ~np.isin(snapshot.blocks.address[own], opened)
    stack = np.concatenate(
        [
            trace.stack[lives.first[alive]],
            np.full(int(older.sum()), NONE, np.int32),
            snapshot.blocks.stack[own],
        ]
    )
    sizes = (
        trace.size[lives.first[alive]],
        trace.size[lives.last[older]],
        snapshot.blocks.requested[own],
    )
    return _totals(stack.astype(np.int32), np.concatenate(sizes))


def trace_levels(trace: EventTable) -> Int64:
    """Bytes held at the trace's start (0) and after each event, relative to that start."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(_changes(trace))])


def time_line(snapshot: MemorySnapshot, device: int) -> TimeLine:
    """Memory held over the trace: a point for its start and one for each change.

    It is absolute if the blocks at the end show how much was held before the trace: all of them and
    the trace's end are needed, which may be missing in a damaged file. If two clocks of the file
    disagree about the order, a time is that of the latest event before it.
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
    base = int(snapshot.blocks.requested[_held_blocks(snapshot, device)].sum()) - int(level[-1])
    # Recording that was switched off and on misses changes: the sum can then go below zero.
    is_whole = trace.whole and snapshot.segments.whole
    is_listed = bool((snapshot.segments.device == device).any())
    absolute = is_whole and is_listed and base + int(level.min()) >= 0
    return TimeLine(
        time=np.concatenate([times[:1], times[rows]]).astype(np.int64),
        bytes=level + base if absolute else level,
        timed=timed,
        absolute=absolute,
    )


def largest_unused(snapshot: MemorySnapshot) -> Int64:
    """The largest free block of each segment: a larger request needs a new segment."""
    blocks = snapshot.blocks
    largest = np.zeros(len(snapshot.segments), np.int64)
    free = blocks.state == BlockState.INACTIVE
    np.maximum.at(largest, blocks.segment[free], blocks.size[free])
    return largest


def lifetimes(trace: EventTable) -> Lifetimes:
    """Every block in the trace."""
    taken, freed = (trace.action == action for action in (Action.ALLOC, Action.FREE_COMPLETED))
    return Lifetimes.of(trace.address, taken, freed)


def _changes(trace: EventTable) -> Int64:
    taken, freed = (trace.action == action for action in (Action.ALLOC, Action.FREE_COMPLETED))
    changes: Int64 = (taken.astype(np.int64) - freed) * trace.size
    return changes


def _held_blocks(snapshot: MemorySnapshot, device: int) -> Mask:
    blocks = snapshot.blocks
    own = np.equal(snapshot.segments.device[blocks.segment], device)
    mask: Mask = own & (blocks.state != BlockState.INACTIVE)
    return mask


def _totals(stack: Int32, size: Int64) -> StackTotals:
    stacks, group = np.unique(stack, return_inverse=True)
    total = sums(group, size, len(stacks))
    count = np.bincount(group, minlength=len(stacks)).astype(np.int64)
    order = np.argsort(-total, kind="stable")
    return StackTotals(stacks[order].astype(np.int32), total[order], count[order])


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """Blocks in a list of events: the rows of each one's allocation and release, one of which may
    be missing."""

    first: Int64
    """NONE if allocated before the events."""
    last: Int64
    """Number of events if not released."""

    @classmethod
    def of(cls, address: npt.NDArray[Any], allocated: Mask, released: Mask) -> Lifetimes:
        """Blocks of ordered events, each of which allocates, releases, both or neither.

        A second allocation of an address without a release ends its previous block.
        """
        rows = np.flatnonzero(allocated | released)
        rows = rows[np.argsort(address[rows], kind="stable")]
        own, alloc = address[rows], allocated[rows]
        same = np.zeros(len(rows) + 1, np.bool_)
        same[1:-1] = own[1:] == own[:-1]
        ends = np.where(same[1:], np.append(rows[1:], len(address)), len(address))
        began = np.append(False, alloc[:-1]) & same[:-1]
        orphans = ~alloc & ~began
        first = np.concatenate([rows[alloc], np.full(int(orphans.sum()), NONE)])
        return cls(first.astype(np.int64), np.concatenate([ends[alloc], rows[orphans]]))
