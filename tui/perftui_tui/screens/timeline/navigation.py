"""Moving over the timeline: the interval on screen, selections, marks, and matches of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.analysis.kernels.names import short_name
from perftui.analysis.timeline.track import HELPERS, WHOLE, TimelineTrack
from perftui.trace.model import KERNEL, NONE, Int64, Trace

SHORTEST_VIEW = 1_000
"""Nanoseconds: with any more zoom a column of a wide screen would be less than a few."""


@dataclass(frozen=True)
class Viewport:
    """``start`` to ``end`` of the ``first`` to ``last`` that there is; integer nanoseconds.

    Every change keeps ``first <= start < end <= last`` and a view at least ``SHORTEST_VIEW`` long
    (or the whole, where that is shorter)."""

    start: int
    end: int
    first: int
    last: int

    @classmethod
    def whole(cls, first: int, last: int) -> Viewport:
        """All there is; never empty."""
        last = max(last, first + 1)
        return cls(first, last, first, last)

    @property
    def span(self) -> int:
        return self.end - self.start

    def showing(self, start: int, end: int) -> Viewport:
        """The view ``start`` to ``end``, made long enough and moved inside what there is."""
        span = min(max(end - start, SHORTEST_VIEW), self.last - self.first)
        start = (start + end - span) // 2
        start = min(max(start, self.first), self.last - span)
        return Viewport(start, start + span, self.first, self.last)

    def zoomed(self, factor: float, anchor: int) -> Viewport:
        """A view ``factor`` times as long in which ``anchor`` keeps its place on screen."""
        anchor = min(max(anchor, self.start), self.end)
        span = min(max(round(self.span * factor), SHORTEST_VIEW), self.last - self.first)
        start = anchor - (anchor - self.start) * span // self.span
        return self.showing(start, start + span)

    def panned(self, amount: int) -> Viewport:
        """The view moved by ``amount`` nanoseconds, as far as there is something to see."""
        return self.showing(self.start + amount, self.end + amount)

    def fitted(self, start: int, end: int) -> Viewport:
        """``start`` to ``end`` with a tenth of their length around them."""
        margin = max((end - start) // 10, 1)
        return self.showing(start - margin, end + margin)

    def revealing(self, start: int, end: int) -> Viewport:
        """The view moved so that ``start`` to ``end`` is in it; unchanged where it is."""
        if start >= self.start and end <= self.end:
            return self
        if end - start > self.span:
            return self.fitted(start, end)
        return self.showing((start + end - self.span) // 2, (start + end + self.span) // 2)

    def column(self, time: int, columns: int) -> int:
        """The column in which ``time`` falls: outside 0 to ``columns`` - 1 where it is not seen."""
        return (time - self.start) * columns // self.span

    def time(self, column: int, columns: int) -> int:
        """The middle of a column."""
        return self.start + (2 * column + 1) * self.span // (2 * columns)


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
        return self.row == NONE

    def is_in(self, view: Viewport) -> bool:
        return self.end > view.start and self.start < view.end


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
    time = np.int64(begin_of(selected, view, step))
    if step > 0:
        place = int(np.searchsorted(index.start, time, side="right"))
    else:
        place = int(np.searchsorted(index.start, time, side="left")) - 1
    if selected is not None and selected.track is track and not selected.is_gap:
        place = place_of(track, selected.row) + step
    return event(trace, track, int(index.rows[place])) if 0 <= place < len(index) else None


def begin_of(selected: Selection | None, view: Viewport, step: int) -> int:
    """The time where a search begins: the selection, while it is in view, else an edge of that."""
    if selected is not None and selected.is_in(view):
        return selected.start
    return view.start - 1 if step > 0 else view.end


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


def track_of(tracks: Sequence[TimelineTrack], trace: Trace, row: int) -> TimelineTrack | None:
    """The timeline track that shows ``row`` among the events of its thread or stream."""
    for track in tracks:
        if track.track == trace.track[row] and track.kind != WHOLE:
            place = place_of(track, row)
            if place < len(track.index) and track.index.rows[place] == row:
                return track
    return None


def shown_event(tracks: Sequence[TimelineTrack], trace: Trace, row: int) -> Selection | None:
    """The event of ``row`` on the track that shows it; None for NONE, and where none does."""
    track = None if row == NONE else track_of(tracks, trace, row)
    return None if track is None else event(trace, track, row)


@dataclass(frozen=True, eq=False)
class Matches:
    """All rows whose name, or its short form, contains ``needle``."""

    needle: str
    is_named: npt.NDArray[np.bool_]
    """By the number of a name: whether it matches."""
    rows: Int64
    """By start."""
    starts: Int64
    longest: int
    """The row that lasts longest, the first of equals; NONE without any."""

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, row: int) -> int | None:
        """Which match ``row`` is, from 0; None where it is none."""
        found = np.flatnonzero(self.rows == row)
        return int(found[0]) if len(found) else None

    def beside(self, row: int, time: int, step: int) -> int:
        """The match after (1) or before (-1) ``row`` or ``time``, round the end; NONE without."""
        if not len(self):
            return NONE
        place = self.place(row)
        if place is None:
            behind = int(np.searchsorted(self.starts, np.int64(time)))
            place = behind if step > 0 else behind - 1
        else:
            place += step
        return int(self.rows[place % len(self)])


def find_matches(trace: Trace, needle: str) -> Matches:
    """Search names, of kernels the short ones too, for ``needle`` in any case; an empty one is in
    none."""
    low = needle.casefold()
    is_named = np.array([bool(low) and low in name.casefold() for name in trace.names], dtype=bool)
    kernels = np.bincount(trace.name[trace.in_category(KERNEL)], minlength=len(trace.names))
    for number in np.flatnonzero(kernels).tolist() if low else ():
        is_named[number] |= low in short_name(trace.names[number]).casefold()
    rows = np.flatnonzero(is_named[trace.name]) if is_named.any() else np.zeros(0, np.int64)
    starts = trace.start[rows]
    order = np.argsort(starts, kind="stable")
    longest = int(rows[trace.duration[rows].argmax()]) if len(rows) else NONE
    return Matches(needle, is_named, rows[order], starts[order], longest)
