"""The lists of a snapshot as its pickle spells them, of a whole one or of what was read of one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from perftui.trace.errors import TraceError
from perftui.trace.memory_snapshot.plain_pickle import Damage, Plain, PlainPickle

_SEGMENTS, _TRACES = "segments", "device_traces"


@dataclass(frozen=True)
class Content:
    """Rows are segments and events; none of them has been looked at yet."""

    fields: dict[str, Plain]
    """Fields of the top level; the rows are taken from below."""
    segments: list[Plain]
    traces: list[Plain]
    """One list of events for each device."""
    segments_whole: bool = True
    whole_traces: int | None = None
    """How many traces have all their events; None for all."""

    @property
    def is_whole(self) -> bool:
        """Whether no row is missing."""
        return self.segments_whole and self.whole_traces is None

    def has_whole(self, device: int) -> bool:
        """Whether all events of this device's trace are there."""
        return self.whole_traces is None or device < self.whole_traces


def content_of(pickle: PlainPickle, damage: Damage | None) -> Content:
    """What was read; raises TraceError for what is no snapshot, and where no row was read."""
    if damage is None:
        return _whole(pickle.stack[-1])
    problem = f"it is damaged at byte {damage.at}: {damage.why}; nothing before that can be shown"
    try:
        content = _finished(pickle.stack, pickle.marks)
    except TraceError as error:
        raise TraceError(f"{problem}: record it again") from error
    pickle.stack.clear()
    if not content.segments and not any(content.traces):
        raise TraceError(f"{problem}: record it again")
    return content


def _whole(tree: Plain) -> Content:
    """What a pickle holds that was read to its end."""
    if isinstance(tree, list) and tree:
        return Content({}, tree, [])
    if not isinstance(tree, dict) or not {_SEGMENTS, _TRACES} & tree.keys():
        raise TraceError("it has no segments and no device_traces: this is not a memory snapshot")
    segments, traces = tree.get(_SEGMENTS, []), tree.get(_TRACES, [])
    if not isinstance(segments, list):
        raise TraceError("segments are not a list of dicts: this is not a memory snapshot")
    if not isinstance(traces, list):
        raise TraceError("'device_traces' is not a list: this is not a memory snapshot")
    return Content(tree, segments, traces)


def _finished(stack: Sequence[Plain], marks: Sequence[int]) -> Content:
    """What a pickle that stops in the middle had finished.

    A list on the stack is taken as far as it goes: it may be open, and no row of it is. A dict on
    top of the stack is left out: whether it was complete is not known.
    """
    root = stack[0] if stack else None
    if isinstance(root, list):
        return replace(_whole(_rows(stack, 0, _end(stack, 0, dict))), segments_whole=False)
    if not isinstance(root, dict):
        raise TraceError("it holds nothing that could be read")
    tree, at = dict(root), 1
    while _is_key(stack, at) and _is_key(stack, at + 2) and not _is_open(marks, at + 2):
        tree[str(stack[at])] = stack[at + 1]
        at += 2
    opened = str(stack[at]) if _is_key(stack, at) else ""
    whole_traces = None if _TRACES in tree else 0
    if opened == _SEGMENTS:
        tree[opened] = _rows(stack, at + 1, _end(stack, at + 1, dict))
    elif opened == _TRACES:
        end = _end(stack, at + 1, list)
        traces = _rows(stack, at + 1, end)
        whole_traces = len(traces)
        if end > at + 2:
            traces.append(_rows(stack, end - 1, _end(stack, end - 1, dict)))
        tree[opened] = traces
    return replace(
        _whole(tree),
        segments_whole=_SEGMENTS in tree and opened != _SEGMENTS,
        whole_traces=whole_traces,
    )


def _is_key(stack: Sequence[Plain], at: int) -> bool:
    return at < len(stack) and isinstance(stack[at], str)


def _is_open(marks: Sequence[int], at: int) -> bool:
    """Whether what lies below this height is being filled."""
    index = bisect_left(marks, at)
    return index < len(marks) and marks[index] == at


def _rows(stack: Sequence[Plain], at: int, end: int) -> list[Plain]:
    """The list at ``at`` and what waits above it to be put into it, but for the last before
    ``end``."""
    listed = stack[at] if at < len(stack) else None
    return [*(listed if isinstance(listed, list) else ()), *islice(stack, at + 1, end - 1)]


def _end(stack: Sequence[Plain], at: int, kind: type[object]) -> int:
    """Where what stands above ``at`` is of another kind."""
    end = at + 1
    while end < len(stack) and isinstance(stack[end], kind):
        end += 1
    return end
