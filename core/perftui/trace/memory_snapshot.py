"""A memory snapshot as columns. Sizes are bytes, times integer nanoseconds since the epoch."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from perftui.trace.model import NONE, Int32, Int64, LoadWarning, TraceError
from perftui.trace.text import printable

Int8 = npt.NDArray[np.int8]
UInt64 = npt.NDArray[np.uint64]


class BlockState(enum.IntEnum):
    """State of a block for the allocator."""

    INACTIVE = 0
    """In the cache, available."""
    ACTIVE = 1
    """Held by the program."""
    PENDING_FREE = 2
    """Freed by the program, still in use by a stream."""


class Action(enum.IntEnum):
    """Kind of an event of the trace."""

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
    """Out of memory: the size is the requested one."""
    OTHER = 9
    """An annotation, or an unknown name, which a warning of the snapshot lists."""


@dataclass(frozen=True)
class Frame:
    """One call of a stack, as spelled in the file; text is not yet safe to show."""

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
    """Start of each stack in ``frame``; one longer than there are stacks."""

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
    """Requested size of the block in bytes."""
    state: Int8
    """A ``BlockState``."""
    stack: Int32
    """Stack of its allocation, NONE if no history was recorded."""

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True, eq=False)
class EventTable:
    """Actions of one device's allocator, in order; the oldest may have been overwritten."""

    device: int
    action: Int8
    """An ``Action``."""
    address: UInt64
    """0 for OOM, which has none."""
    size: Int64
    """Requested size in bytes."""
    time: Int64
    """NONE where the file has no times: older torch recorded none."""
    stack: Int32
    device_free: Int64
    """Bytes that the driver had left, for OOM; NONE elsewhere."""
    whole: bool = True
    """Whether the last events could be read: they led to the segments in the file."""

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
    """Missing parts of the file; offsets are those of the inflated pickle."""

    @property
    def devices(self) -> tuple[int, ...]:
        """Devices with memory or events, in order."""
        in_traces = {trace.device for trace in self.traces if len(trace)}
        return tuple(sorted(in_traces | set(self.segments.device.tolist())))

    def trace_of(self, device: int) -> EventTable | None:
        """The events of one device, None if the file has none for it."""
        return next((trace for trace in self.traces if trace.device == device), None)


Row: TypeAlias = Mapping[str, object]

_INT64_MAX = 2**63 - 1
_ADDRESSES = 2**64


def rows_of(value: object, what: str) -> list[Row]:
    """A list of dicts; raises TraceError for anything else."""
    if not isinstance(value, list) or set(map(type, value)) - {dict}:
        raise TraceError(f"{what} are not a list of dicts: this is not a memory snapshot")
    return value


def integers(rows: Sequence[Row], key: str, default: int | None = None) -> list[int]:
    """One field of every row; raises TraceError if it is no integer, or absent and needed."""
    values = [row.get(key, default) for row in rows]
    if set(map(type, values)) - {int}:
        why = "this is not a memory snapshot of PyTorch 2.4 or newer"
        raise TraceError(f"{key!r} is missing or not an integer: {why}")
    return values  # type: ignore[return-value]  # checked above, faster than a loop


def column(values: list[int], key: str, lowest: int = -(2**63), highest: int = _INT64_MAX) -> Int64:
    """64-bit integers from ``lowest`` to ``highest``; raises TraceError for others."""
    _check(values, key, lowest, highest)
    return np.array(values, np.int64)


def sizes(values: list[int], key: str) -> Int64:
    """Bytes, none negative, whose sum has 64 bits; raises TraceError for others."""
    if sum(values) > _INT64_MAX:
        raise TraceError(f"{key!r} is out of range: the file is damaged")
    return column(values, key, lowest=0)


def small(values: list[int], key: str) -> Int32:
    """32-bit integers, none negative; raises TraceError for others."""
    return column(values, key, 0, 2**31 - 1).astype(np.int32)


def addresses(values: list[int], key: str) -> UInt64:
    """Addresses; a negative number is the address of the same 64 bits."""
    _check(values, key, -(2**63), _ADDRESSES - 1)
    if values and min(values) < 0:
        values = [value % _ADDRESSES for value in values]
    return np.array(values, np.uint64)


def _check(values: list[int], key: str, lowest: int, highest: int) -> None:
    if values and not lowest <= min(values) <= max(values) <= highest:
        raise TraceError(f"{key!r} is out of range: the file is damaged")


class StackTable:
    """Numbers distinct stacks; the lists given to it must outlive it, as it compares identities.

    A snapshot repeats the same frame dicts a hundred thousand times: comparing their content
    instead took two to three times as long.
    """

    def __init__(self) -> None:
        self._by_list: dict[int, int] = {}
        self._by_identity: dict[tuple[int, ...], int] = {}
        self._by_frames: dict[tuple[int, ...], int] = {}
        self._frame_of: dict[int, int] = {}
        self._frames: dict[Frame, int] = {}

    def add(self, frames: object) -> int:
        """The number of one stack, NONE for no stack; raises TraceError for anything else."""
        if frames is None:
            return NONE
        number = self._by_list.get(id(frames))
        if number is None:
            if not isinstance(frames, list | tuple):
                raise TraceError("'frames' is not a list: this is not a memory snapshot")
            number = self._number(frames) if frames else NONE
            self._by_list[id(frames)] = number
        return number

    def stacks(self) -> Stacks:
        """All stacks in the order of their numbers."""
        lengths = [len(indices) for indices in self._by_frames]
        flat = [index for indices in self._by_frames for index in indices]
        start = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=start[1:])
        return Stacks(tuple(self._frames), np.array(flat, np.int32), start)

    def _number(self, frames: list[object] | tuple[object, ...]) -> int:
        identity = tuple(map(id, frames))
        number = self._by_identity.get(identity)
        if number is None:
            indices = tuple(map(self._frame, frames))
            number = self._by_frames.setdefault(indices, len(self._by_frames))
            self._by_identity[identity] = number
        return number

    def _frame(self, value: object) -> int:
        number = self._frame_of.get(id(value))
        if number is None:
            fields = value if isinstance(value, dict) else {}
            filename, line, function = (fields.get(key) for key in ("filename", "line", "name"))
            if not (isinstance(filename, str) and isinstance(function, str)
                    and isinstance(line, int) and line.bit_length() < 64):  # fmt: skip
                message = "a frame has no file, line and name: this is not a memory snapshot"
                raise TraceError(message)
            frame = Frame(filename, line, function)
            number = self._frame_of[id(value)] = self._frames.setdefault(frame, len(self._frames))
        return number


_STATES = {
    "inactive": BlockState.INACTIVE,
    "active_allocated": BlockState.ACTIVE,
    "active_awaiting_free": BlockState.PENDING_FREE,
    "active_pending_free": BlockState.PENDING_FREE,
}
_ACTIONS = {action.name.lower(): action for action in Action if action is not Action.OTHER}
_ACTIONS["free"] = Action.FREE_COMPLETED

_ANNOTATIONS = {"user_defined", "workspace_snapshot"}
"""Events that builds of torch around 2.4, and of other vendors, put between those of the allocator;
they hold no memory."""


def segment_table(segments: Sequence[Row], whole: bool) -> SegmentTable:
    """One row for each segment."""
    return SegmentTable(
        device=small(integers(segments, "device"), "device"),
        address=addresses(integers(segments, "address"), "address"),
        reserved=sizes(integers(segments, "total_size"), "total_size"),
        allocated=sizes(integers(segments, "allocated_size"), "allocated_size"),
        active=sizes(integers(segments, "active_size"), "active_size"),
        whole=whole,
    )


def block_table(segments: Sequence[Row], stacks: StackTable, most: int) -> BlockTable:
    """One row for each block of each segment.

    Raises TraceError if there are more than ``most``: a file can name one list of blocks any number
    of times.
    """
    rows: list[Row] = []
    counts: list[int] = []
    for segment in segments:
        blocks = segment.get("blocks", [])
        if isinstance(blocks, list) and len(rows) + len(blocks) > most:
            raise TraceError("it lists more blocks than it has bytes: refused")
        rows += rows_of(blocks, "blocks")
        counts.append(len(rows))
    segment_of = np.searchsorted(np.array(counts, np.int64), np.arange(len(rows)), side="right")
    return BlockTable(
        segment=segment_of.astype(np.int32),
        address=addresses(integers(rows, "address"), "address"),
        size=sizes(integers(rows, "size"), "size"),
        requested=sizes(integers(rows, "requested_size"), "requested_size"),
        state=np.array([_state(row) for row in rows], np.int8),
        stack=np.array([stacks.add(row.get("frames")) for row in rows], np.int32),
    )


def _state(block: Row) -> BlockState:
    state = block.get("state")
    if not isinstance(state, str) or state not in _STATES:
        kind = type(state).__name__
        text = f"'{printable(state)[:40]}'" if isinstance(state, str) else kind
        raise TraceError(f"a block is {text}: this is not a memory snapshot")
    return _STATES[state]


def event_table(
    device: int, events: list[Row], stacks: StackTable, unknown: Counter[str], whole: bool
) -> EventTable:
    """One row for each event; unknown names of actions are counted in ``unknown``."""
    micros = integers(events, "time_us", NONE)
    times = [NONE if us == NONE else us * 1000 for us in micros]
    return EventTable(
        device=device,
        action=np.array([_action(row, unknown) for row in events], np.int8),
        address=addresses(integers(events, "addr", 0), "addr"),
        size=sizes(integers(events, "size", 0), "size"),
        time=column(times, "time_us", NONE),
        stack=np.array([stacks.add(row.get("frames")) for row in events], np.int32),
        device_free=column(integers(events, "device_free", NONE), "device_free"),
        whole=whole,
    )


def _action(row: Row, unknown: Counter[str]) -> Action:
    name = row.get("action")
    if not isinstance(name, str):
        raise TraceError("an event has no action: this is not a memory snapshot")
    action = _ACTIONS.get(name, Action.OTHER)
    if action is Action.OTHER and name not in _ANNOTATIONS:
        unknown[name] += 1
    return action
