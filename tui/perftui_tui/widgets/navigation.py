"""From one event or gap of the timeline to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis.lanes import Lane
from perftui.analysis.model import Gap
from perftui.trace.categories import LAUNCHES
from perftui.trace.model import NONE, Int64, Trace
from perftui_tui.widgets.viewport import Viewport


@dataclass(frozen=True)
class Selection:
    """An event, or an idle stretch (``row`` is NONE), of the lane it is on."""

    start: int
    end: int
    row: int
    lane: Lane

    @property
    def is_gap(self) -> bool:
        """Whether it is idle time."""
        return self.row == NONE


def event(trace: Trace, lane: Lane, row: int) -> Selection:
    """The event of ``row`` on ``lane``."""
    start = int(trace.start[row])
    return Selection(start, start + int(trace.duration[row]), row, lane)


def neighbour(
    trace: Trace, lane: Lane, selected: Selection | None, view: Viewport, step: int
) -> Selection | None:
    """The next (1) or previous (-1) event of ``lane``: from the selection, or from the view's edge.

    None at the end of the lane.
    """
    index = lane.index
    time = _from(selected, view, step)
    if step > 0:
        place = int(np.searchsorted(index.start, np.int64(time), side="right"))
    else:
        place = int(np.searchsorted(index.start, np.int64(time), side="left")) - 1
    if selected is not None and selected.lane is lane and not selected.is_gap:
        place = int(np.searchsorted(index.rows, selected.row)) + step
    return event(trace, lane, int(index.rows[place])) if 0 <= place < len(index) else None


def _from(selected: Selection | None, view: Viewport, step: int) -> int:
    """Where a search begins: the selection, while it is in view."""
    if selected is not None and selected.end > view.start and selected.start < view.end:
        return selected.start
    return view.start - 1 if step > 0 else view.end


def next_gap(
    lane: Lane, selected: Selection | None, view: Viewport, threshold: int, step: int
) -> Selection | None:
    """The next (1) or previous (-1) gap of at least ``threshold`` on ``lane``, None at its end."""
    time = _from(selected, view, step)
    search = lane.index.next_gap if step > 0 else lane.index.previous_gap
    gap = search(time, threshold)
    return None if gap is None else Selection(*gap, NONE, lane)


def largest_gap(
    lane: Lane, device: int, gaps: Sequence[Gap], selected: Selection | None
) -> Selection | None:
    """The largest gap: of the whole device where ``lane`` is on one, else of the lane alone.

    From a gap of the device that is selected, the next smaller one. ``gaps`` are longest first.
    """
    own = [gap for gap in gaps if gap.device == device]
    if device == NONE or not own:
        return _largest_of(lane)
    place = 0
    if selected is not None and selected.is_gap:
        times = (selected.start, selected.end)
        same = [i for i, gap in enumerate(own) if (gap.start, gap.end) == times]
        place = (same[0] + 1) % len(own) if same else 0
    return Selection(own[place].start, own[place].end, NONE, lane)


def _largest_of(lane: Lane) -> Selection | None:
    gaps: Int64 = lane.index.start[1:] - lane.index.end[:-1]
    if not len(gaps) or gaps.max() <= 0:
        return None
    place = int(np.argmax(gaps))
    return Selection(int(lane.index.end[place]), int(lane.index.start[place + 1]), NONE, lane)


def launched_row(trace: Trace, row: int) -> int:
    """The device activity that ``row``, or the first call inside it, launched; NONE if none did."""
    inside = _within(trace, row)
    launching = inside[trace.correlation[inside] != NONE]
    is_device = np.asarray([track.is_device for track in trace.tracks])[trace.track]
    work = np.flatnonzero(is_device & (trace.correlation != NONE))
    joined = np.isin(trace.correlation[launching], trace.correlation[work])
    if not joined.any():
        return NONE
    launch = launching[int(np.argmax(joined))]
    place = int(np.argmax(trace.correlation[work] == trace.correlation[launch]))
    return int(work[place])


def _within(trace: Trace, row: int) -> Int64:
    """``row`` and the rows of its track that lie inside it."""
    low, high = np.searchsorted(trace.track, [trace.track[row], trace.track[row] + 1])
    starts, end = trace.start[low:high], trace.start[row] + trace.duration[row]
    first = row - int(low)
    last = int(np.searchsorted(starts, end, side="right"))
    return np.arange(low + first, low + max(last, first + 1), dtype=np.int64)


def launching_row(trace: Trace, row: int) -> int:
    """The call on the CPU that launched the device activity ``row``; NONE if it is not there."""
    if trace.correlation[row] == NONE:
        return NONE
    joined = np.flatnonzero(trace.correlation == trace.correlation[row])
    calls = joined[trace.in_category(*LAUNCHES)[joined]]
    return int(calls[0]) if len(calls) else NONE


def lane_of(lanes: Sequence[Lane], trace: Trace, row: int) -> Lane | None:
    """The lane that shows ``row``."""
    for lane in lanes:
        if lane.track == trace.track[row]:
            place = int(np.searchsorted(lane.index.rows, row))
            if place < len(lane.index) and lane.index.rows[place] == row:
                return lane
    return None


def named_rows(trace: Trace, needle: str) -> Int64:
    """Rows whose name contains ``needle``, in any case, by start."""
    low = needle.casefold()
    names = [number for number, name in enumerate(trace.names) if low in name.casefold()]
    rows = np.flatnonzero(np.isin(trace.name, names)) if low else np.zeros(0, np.int64)
    return rows[np.argsort(trace.start[rows], kind="stable")]
