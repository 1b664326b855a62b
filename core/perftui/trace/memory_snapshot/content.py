"""The lists of a snapshot as its pickle spells them, of a whole one or of what was read of one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from perftui.trace.errors import TraceError
from perftui.trace.memory_snapshot.containers import Plain

_SEGMENTS, _TRACES = "segments", "device_traces"


@dataclass(frozen=True)
class Content:
    """Rows are segments and events; none of them has been looked at yet."""

    fields: dict[str, Plain]
    """Of the top level; the rows are taken from below."""
    segments: list[Plain]
    traces: list[Plain]
    """One list of events for each device."""
    segments_first: bool = True
    """Whether they stand before the events in the file."""
    segments_whole: bool = True
    whole_traces: int | None = None
    """How many traces have all their events; None for all."""

    def __len__(self) -> int:
        return len(self.segments) + sum(len(events) for events in map(_listed, self.traces))

    @property
    def is_whole(self) -> bool:
        """Whether no row is missing."""
        return self.segments_whole and self.whole_traces is None

    def has_whole(self, device: int) -> bool:
        """Whether all events of this device's trace are there."""
        return self.whole_traces is None or device < self.whole_traces

    def row(self, number: int) -> tuple[str, Plain]:
        """A row in the order of the file, and what it is called."""
        for name, rows in self._in_order():
            if number < len(rows):
                return name, rows[number]
            number -= len(rows)
        raise IndexError(number)

    def first(self, count: int) -> Content:
        """The content up to this many rows."""
        segments: list[Plain] = []
        traces: list[Plain] = []
        segments_whole, whole_traces = False, 0
        for name, rows in self._in_order():
            whole = count >= len(rows)
            if name == "segment":
                segments, segments_whole = rows[:count], whole and self.segments_whole
            else:
                traces.append(rows[:count])
                whole_traces += whole and self.has_whole(len(traces) - 1)
            if not whole:
                break
            count -= len(rows)
        return replace(
            self,
            segments=segments,
            traces=traces,
            segments_whole=segments_whole,
            whole_traces=whole_traces,
        )

    def _in_order(self) -> list[tuple[str, list[Plain]]]:
        events = [("event", _listed(each)) for each in self.traces]
        segments = [("segment", self.segments)]
        return segments + events if self.segments_first else events + segments


def whole_content(tree: Plain) -> Content:
    """What a pickle holds that was read to its end; raises TraceError for other things."""
    if isinstance(tree, list) and tree:
        return Content({}, tree, [])
    if not isinstance(tree, dict) or not {_SEGMENTS, _TRACES} & tree.keys():
        raise TraceError("it has no segments and no device_traces: this is not a memory snapshot")
    segments, traces = tree.get(_SEGMENTS, []), tree.get(_TRACES, [])
    if not isinstance(segments, list):
        raise TraceError("segments are not a list of dicts: this is not a memory snapshot")
    if not isinstance(traces, list):
        raise TraceError("'device_traces' is not a list: this is not a memory snapshot")
    keys = [key for key in tree if key in {_SEGMENTS, _TRACES}]
    return Content(tree, segments, traces, segments_first=keys[0] == _SEGMENTS)


def finished_content(stack: Sequence[Plain], marks: Sequence[int]) -> Content:
    """What a machine that stopped in the middle had finished; raises TraceError for nothing.

    A list on the stack is taken as far as it goes: it may be open, and no row of it is. A dict on
    top of the stack is left out: whether it was complete cannot be told.
    """
    root = stack[0] if stack else None
    if isinstance(root, list):
        return replace(whole_content(_rows(stack, 0)), segments_whole=False)
    if not isinstance(root, dict):
        raise TraceError("it holds nothing that could be read")
    tree, at = dict(root), 1
    while _is_key(stack, at) and _is_key(stack, at + 2) and not _is_open(marks, at + 2):
        tree[str(stack[at])] = stack[at + 1]
        at += 2
    opened = str(stack[at]) if _is_key(stack, at) else ""
    whole_traces = None if _TRACES in tree else 0
    if opened == _SEGMENTS:
        tree[opened] = _rows(stack, at + 1)
    elif opened == _TRACES:
        tree[opened], whole_traces = _traces(stack, at + 1)
    return replace(
        whole_content(tree),
        segments_whole=_SEGMENTS in tree and opened != _SEGMENTS,
        whole_traces=whole_traces,
    )


def _is_key(stack: Sequence[Plain], at: int) -> bool:
    return at < len(stack) and isinstance(stack[at], str)


def _is_open(marks: Sequence[int], at: int) -> bool:
    """Whether what lies below this height is being filled."""
    index = bisect_left(marks, at)
    return index < len(marks) and marks[index] == at


def _rows(stack: Sequence[Plain], at: int) -> list[Plain]:
    """The list at ``at`` and the rows above it that wait to be put into it."""
    end = at + 1
    while end < len(stack) and isinstance(stack[end], dict):
        end += 1
    return [*_listed(_at(stack, at)), *islice(stack, at + 1, max(at + 1, end - 1))]


def _traces(stack: Sequence[Plain], at: int) -> tuple[list[Plain], int]:
    """The lists of events, and how many of them are whole: the last on the stack is open."""
    end = at + 1
    while end < len(stack) and isinstance(stack[end], list):
        end += 1
    traces = [*_listed(_at(stack, at)), *islice(stack, at + 1, max(at + 1, end - 1))]
    whole = len(traces)
    if end > at + 1:
        traces.append(_rows(stack, end - 1))
    return traces, whole


def _at(stack: Sequence[Plain], at: int) -> Plain:
    return stack[at] if at < len(stack) else None


def _listed(value: Plain) -> list[Plain]:
    return value if isinstance(value, list) else []
