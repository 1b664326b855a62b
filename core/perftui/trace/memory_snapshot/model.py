"""A memory snapshot as columns. Sizes are bytes, times integer nanoseconds since the epoch."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perftui.trace.model import NONE, Int32, Int64, LoadWarning

Int8 = npt.NDArray[np.int8]
UInt64 = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


class BlockState(enum.IntEnum):
    """What a block is to the allocator."""

    INACTIVE = 0
    """In the cache, free to be handed out."""
    ACTIVE = 1
    """Held by the program."""
    PENDING_FREE = 2
    """Freed by the program, still in use by a stream."""


class Action(enum.IntEnum):
    """What an event of the trace is about."""

    ALLOC = 0
    FREE_REQUESTED = 1
    FREE_COMPLETED = 2
    """The memory is free from here on; a request may come before it."""
    SEGMENT_ALLOC = 3
    SEGMENT_FREE = 4
    SEGMENT_MAP = 5
    SEGMENT_UNMAP = 6
    SNAPSHOT = 7
    OOM = 8
    """Out of memory: the size is what was asked for."""
    OTHER = 9
    """An annotation, or a name that is not known here: a warning of the snapshot names it."""


@dataclass(frozen=True)
class Frame:
    """One call of a stack, as the file spells it; text is not yet safe to show."""

    filename: str
    line: int
    function: str


@dataclass(frozen=True, eq=False)
class Stacks:
    """Distinct call stacks, innermost call first."""

    frames: tuple[Frame, ...]
    frame: Int32
    """Indices into ``frames``, one stack after the other."""
    start: Int64
    """Where each stack begins in ``frame``; one longer than there are stacks."""

    def __len__(self) -> int:
        return len(self.start) - 1

    def of(self, stack: int) -> tuple[Frame, ...]:
        """The calls of one stack; none for NONE."""
        if stack == NONE:
            return ()
        indices = self.frame[self.start[stack] : self.start[stack + 1]]
        return tuple(self.frames[index] for index in indices.tolist())


@dataclass(frozen=True, eq=False)
class SegmentTable:
    """Memory that the allocator got from the driver; all columns have the same length."""

    device: Int32
    address: UInt64
    reserved: Int64
    """Size of the whole segment."""
    allocated: Int64
    """Bytes in blocks that the program holds, rounded as the allocator rounds them."""
    active: Int64
    """``allocated`` and the bytes that a stream still uses."""
    whole: bool = True
    """Whether all segments of the file could be read."""

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Parts of the segments, in order of segment and address."""

    segment: Int32
    """Row of the segment table."""
    address: UInt64
    size: Int64
    """Size of the block in bytes, as the allocator rounded it."""
    requested: Int64
    """Size of the block in bytes, as the program asked for it; ``size`` if the file lacks it."""
    state: Int8
    """A ``BlockState``."""
    stack: Int32
    """Where it was allocated, NONE where no history was recorded."""

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True, eq=False)
class EventTable:
    """What one device's allocator did, in order; the oldest events may have been overwritten."""

    device: int
    action: Int8
    """An ``Action``."""
    address: UInt64
    """0 for OOM, which has none."""
    size: Int64
    """Size in bytes, as the program asked for it."""
    time: Int64
    """NONE where the file has no times: older torch recorded none."""
    stack: Int32
    device_free: Int64
    """Bytes that the driver had left, for OOM; NONE elsewhere."""
    whole: bool = True
    """Whether the last events could be read: they led to the segments that the file lists."""

    def __len__(self) -> int:
        return len(self.action)

    @property
    def has_time(self) -> bool:
        """Whether every event has a time."""
        return len(self.time) > 0 and bool((self.time != NONE).all())


@dataclass(frozen=True, eq=False)
class MemorySnapshot:
    """The allocator's state when the snapshot was taken, and its events before that."""

    path: Path
    segments: SegmentTable
    blocks: BlockTable
    traces: tuple[EventTable, ...]
    """One for each device that the file lists, events or not."""
    stacks: Stacks
    whole: bool = True
    """Whether all segments and events of the file could be read; a warning names where it ends."""
    warnings: tuple[LoadWarning, ...] = ()
    """What of the file is not here; offsets are those of the pickle, inflated."""

    @property
    def devices(self) -> tuple[int, ...]:
        """Devices with memory or events, in order."""
        seen = {trace.device for trace in self.traces if len(trace)}
        return tuple(sorted(seen | set(self.segments.device.tolist())))

    def trace_of(self, device: int) -> EventTable | None:
        """The events of one device, None where the file has none for it."""
        for trace in self.traces:
            if trace.device == device:
                return trace
        return None
