"""Segments, blocks and events of a snapshot of any age as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from perftui.trace.errors import TraceError
from perftui.trace.memory_snapshot.fields import (
    Row,
    addresses,
    column,
    integers,
    rows_of,
    sizes,
    small,
    whole,
)
from perftui.trace.memory_snapshot.model import (
    Action,
    BlockState,
    BlockTable,
    EventTable,
    SegmentTable,
)
from perftui.trace.memory_snapshot.stack_table import StackTable
from perftui.trace.model import NONE, Int64
from perftui.trace.text import printable

_STATES = {
    "inactive": BlockState.INACTIVE,
    "active_allocated": BlockState.ACTIVE,
    "active_awaiting_free": BlockState.PENDING_FREE,
    "active_pending_free": BlockState.PENDING_FREE,
}
_ACTIONS = {action.name.lower(): action for action in Action if action is not Action.OTHER}
_ACTIONS["free"] = Action.FREE_COMPLETED

_ANNOTATIONS = {"user_defined", "workspace_snapshot"}
"""Events that torch's builds around 2.4, and of other vendors, put between those of the allocator;
they hold no memory."""

_NS_PER_US = 1000
_NO_HISTORY: Row = {}


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

    Raises TraceError where there are more than ``most``: a file can name one list of blocks any
    number of times.
    """
    rows: list[Row] = []
    counts: list[int] = []
    for segment in segments:
        blocks = segment.get("blocks", [])
        if isinstance(blocks, list) and len(rows) + len(blocks) > most:
            raise TraceError("it lists more blocks than it has bytes: refused")
        rows += rows_of(blocks, "blocks")
        counts.append(len(rows))
    size = integers(rows, "size")
    where = np.searchsorted(np.array(counts, np.int64), np.arange(len(rows)), side="right")
    histories = [_newest(row) for row in rows]
    return BlockTable(
        segment=where.astype(np.int32),
        address=addresses(_block_addresses(segments, rows, size, where.tolist()), "address"),
        size=sizes(size, "size"),
        requested=sizes(_requested(rows, histories, size), "requested_size"),
        state=np.array([_state(row) for row in rows], np.int8),
        stack=np.array(
            [
                stacks.add(row.get("frames", history.get("frames")))
                for row, history in zip(rows, histories, strict=True)
            ],
            np.int32,
        ),
    )


def _newest(block: Row) -> Row:
    """The last allocation in a block: older torch listed them, and its viewer takes the first."""
    history = block.get("history")
    if history is None or history == []:
        return _NO_HISTORY
    return rows_of(history, "history")[0]


def _requested(rows: list[Row], histories: list[Row], size: list[int]) -> list[int]:
    values = [
        row.get("requested_size", history.get("real_size", own))
        for row, history, own in zip(rows, histories, size, strict=True)
    ]
    return whole(values, "requested_size")


def _block_addresses(
    segments: Sequence[Row], rows: list[Row], size: list[int], where: list[int]
) -> list[int]:
    """Addresses of blocks; in old files, which have none, they lie one behind the other."""
    starts = integers(segments, "address")
    result: list[int] = []
    following, previous = 0, NONE
    for row, length, segment in zip(rows, size, where, strict=True):
        if segment != previous:
            following, previous = starts[segment], segment
        own = row.get("address", following)
        if not isinstance(own, int):
            raise TraceError("'address' is not an integer: this is not a memory snapshot")
        result.append(own)
        following = own + length
    return result


def _state(block: Row) -> BlockState:
    state = block.get("state")
    if not isinstance(state, str) or state not in _STATES:
        raise TraceError(f"a block is {_shown(state)}: this is not a memory snapshot")
    return _STATES[state]


def event_table(
    device: int,
    events: list[Row],
    stacks: StackTable,
    unknown: Counter[str],
    whole: bool,
) -> EventTable:
    """One row for each event; names of actions that are not known are counted in ``unknown``."""
    return EventTable(
        device=device,
        action=np.array([_action(row, unknown) for row in events], np.int8),
        address=addresses(integers(events, "addr", 0), "addr"),
        size=sizes(integers(events, "size", 0), "size"),
        time=_times(events),
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


def _times(events: list[Row]) -> Int64:
    micros = integers(events, "time_us", NONE)
    return column([NONE if us == NONE else us * _NS_PER_US for us in micros], "time_us", NONE)


def _shown(value: object) -> str:
    return f"'{printable(value)[:40]}'" if isinstance(value, str) else type(value).__name__
