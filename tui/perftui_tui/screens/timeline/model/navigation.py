"""From one event or gap of the timeline to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis.model import Gap, Step
from perftui.analysis.timeline.track import HELPERS, WHOLE, TimelineTrack
from perftui.trace.model import NONE, Int64, Trace
from perftui_tui.screens.timeline.model.viewport import Viewport

_AT_ONCE = 1 << 16
"""Names that are compared in one go: the next of the same name is mostly near."""


@dataclass(frozen=True)
class Selection:
    """An event, or a gap (``row`` is NONE), on its track."""

    start: int
    end: int
    row: int
    track: TimelineTrack

    @property
    def is_gap(self) -> bool:
        """Whether the selection is idle time."""
        return self.row == NONE


@dataclass(frozen=True)
class TimeMarks:
    """Times in ns since the trace's origin; None for a mark that was not set."""

    first: int | None = None
    second: int | None = None

    @property
    def range(self) -> tuple[int, int] | None:
        """Start and end of what lies between both marks; None while one is missing."""
        if self.first is None or self.second is None:
            return None
        return min(self.first, self.second), max(self.first, self.second)

    def marked(self, start: int, end: int) -> TimeMarks:
        """A mark at ``start``; the second at the edge farther from the first; a third anew."""
        if self.first is None or self.second is not None:
            return TimeMarks(start)
        farther = end if abs(end - self.first) >= abs(start - self.first) else start
        return TimeMarks(self.first, farther)


def event(trace: Trace, track: TimelineTrack, row: int) -> Selection:
    """The event of ``row`` on ``track``."""
    start = int(trace.start[row])
    return Selection(start, start + int(trace.duration[row]), row, track)


def neighbour(
    trace: Trace, track: TimelineTrack, selected: Selection | None, view: Viewport, step: int
) -> Selection | None:
    """The next (1) or previous (-1) event from the selection, or the view's edge, if any."""
    index = track.index
    time = _from(selected, view, step)
    if step > 0:
        place = int(np.searchsorted(index.start, np.int64(time), side="right"))
    else:
        place = int(np.searchsorted(index.start, np.int64(time), side="left")) - 1
    if selected is not None and selected.track is track and not selected.is_gap:
        place = place_of(track, selected.row) + step
    return event(trace, track, int(index.rows[place])) if 0 <= place < len(index) else None


def _from(selected: Selection | None, view: Viewport, step: int) -> int:
    """Where a search begins: the selection, while it is in view."""
    if selected is not None and selected.end > view.start and selected.start < view.end:
        return selected.start
    return view.start - 1 if step > 0 else view.end


def next_gap(
    track: TimelineTrack, selected: Selection | None, view: Viewport, threshold: int, step: int
) -> Selection | None:
    """The next (1) or previous (-1) gap of at least ``threshold`` on ``track``, None at its end."""
    time = _from(selected, view, step)
    search = track.index.next_gap if step > 0 else track.index.previous_gap
    gap = search(time, threshold)
    return None if gap is None else Selection(*gap, NONE, track)


def largest_gap(
    track: TimelineTrack, device: int, gaps: Sequence[Gap], selected: Selection | None
) -> Selection | None:
    """The largest gap of the device or thread; again, the next smaller. Longest ``gaps`` first."""
    own = [gap for gap in gaps if gap.device == device]
    if device == NONE or not own:
        return _largest_of(track)
    place = 0
    if selected is not None and selected.is_gap:
        times = (selected.start, selected.end)
        same = [i for i, gap in enumerate(own) if (gap.start, gap.end) == times]
        place = (same[0] + 1) % len(own) if same else 0
    return Selection(own[place].start, own[place].end, NONE, track)


def _largest_of(track: TimelineTrack) -> Selection | None:
    gaps: Int64 = track.index.start[1:] - track.index.end[:-1]
    if not len(gaps) or gaps.max() <= 0:
        return None
    place = int(np.argmax(gaps))
    return Selection(int(track.index.end[place]), int(track.index.start[place + 1]), NONE, track)


def place_of(track: TimelineTrack, row: int) -> int:
    """Where the event of ``row`` is on its track."""
    if track.kind in (WHOLE, HELPERS):
        return int(np.argmax(track.index.rows == row))
    return int(np.searchsorted(track.index.rows, np.int32(row)))


def same_name(trace: Trace, row: int, step: int) -> int:
    """The next (1) or previous (-1) row on the thread with the name of ``row``, else NONE."""
    trace_track, names = trace.track[row], trace.name
    if step > 0:
        names = names[row + 1 : int(np.searchsorted(trace.track, trace_track, side="right"))]
    else:
        names = names[int(np.searchsorted(trace.track, trace_track, side="left")) : row][::-1]
    for done in range(0, len(names), _AT_ONCE):
        found = np.flatnonzero(names[done : done + _AT_ONCE] == trace.name[row])
        if len(found):
            return row + step * (done + int(found[0]) + 1)
    return NONE


def next_step(
    steps: Sequence[Step], selected: Selection | None, view: Viewport, step: int
) -> Step | None:
    """The step after (1) or before (-1) where the person is.

    That is the selection while it is in view, else the middle of the view; of all of the trace, its
    beginning and its end."""
    if selected is not None and selected.end > view.start and selected.start < view.end:
        time = selected.start
    elif view.span == view.last - view.first:
        time = view.first - 1 if step > 0 else view.last
    else:
        time = (view.start + view.end) // 2
    if step > 0:
        return next((one for one in steps if one.start > time), None)
    return next((one for one in reversed(steps) if one.start < time), None)


def track_of(tracks: Sequence[TimelineTrack], trace: Trace, row: int) -> TimelineTrack | None:
    """The timeline track that shows ``row`` among the events of its thread or stream."""
    for track in tracks:
        if track.track == trace.track[row] and track.kind != WHOLE:
            place = place_of(track, row)
            if place < len(track.index) and track.index.rows[place] == row:
                return track
    return None
