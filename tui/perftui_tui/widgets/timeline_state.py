"""Where the person is on the timeline: the view, the lane, the selection, what is folded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perftui.analysis.lanes import Lane
from perftui.analysis.model import TraceAnalysis
from perftui.trace.model import NONE
from perftui_tui.widgets import navigation
from perftui_tui.widgets.gap_words import THRESHOLDS, DeviceGaps, idle_around
from perftui_tui.widgets.lane_groups import ShownLane, shown_lanes
from perftui_tui.widgets.navigation import Selection
from perftui_tui.widgets.viewport import Viewport

_PAN_SHARE = 5
"""A pan moves the view by this part of it."""

_SEEN_SHARE = 40
"""A gap shorter than this part of the view cannot be seen: the view closes in on it."""

_USUAL_THRESHOLD = 2
"""Place in ``THRESHOLDS`` to begin with: gaps from 50 µs on are worth a look."""


class TimelineState:
    """All that keys and mouse change. Knows nothing of the screen but the rows it has for lanes.

    ``analysis`` must hold at least one event; ``lanes`` are those of its trace.
    """

    def __init__(self, analysis: TraceAnalysis, lanes: Sequence[Lane]) -> None:
        self.analysis, self.trace, self.lanes = analysis, analysis.trace, tuple(lanes)
        self.gaps = DeviceGaps(analysis.gaps)
        last = int((self.trace.start + self.trace.duration).max())
        self.view = Viewport.whole(int(self.trace.start.min()), last)
        self.lane = self.lanes[0]
        self.selected: Selection | None = None
        self.top = 0
        self.lane_rows = 1
        self._threshold = _USUAL_THRESHOLD
        self._open_tracks: dict[int, bool] = {}
        self._matches = np.zeros(0, np.int64)
        self._shown: list[ShownLane] = []
        self._shown_for: object = None

    @property
    def threshold(self) -> int:
        """Nanoseconds from which idle time counts as a gap."""
        return THRESHOLDS[self._threshold]

    @property
    def match_count(self) -> int:
        """How many events the last search found."""
        return len(self._matches)

    def shown(self) -> list[ShownLane]:
        """Lanes that are not folded away, of which those from ``top`` on are on screen."""
        asked = (self.lane_rows, frozenset(self._open_tracks.items()))
        if asked != self._shown_for:
            # 0.4 s for 100,000 threads, and every key asks several times.
            self._shown_for = asked
            self._shown = shown_lanes(self.lanes, self.lane_rows, self._open_tracks)
        return self._shown

    def resized(self, lane_rows: int) -> None:
        """The screen has room for so many lanes."""
        self.lane_rows = max(lane_rows, 1)
        self._reveal_lane()

    def zoom(self, factor: float, anchor: int | None = None) -> None:
        """Zoom about ``anchor``, or about the selection while it is in view, or the middle."""
        self.view = self.view.zoomed(factor, self._anchor() if anchor is None else anchor)

    def _anchor(self) -> int:
        if self.selected is not None:
            middle = (self.selected.start + self.selected.end) // 2
            if self.view.start <= middle <= self.view.end:
                return middle
        return (self.view.start + self.view.end) // 2

    def pan(self, steps: int) -> None:
        """Move by a fifth of the view."""
        self.view = self.view.panned(steps * max(self.view.span // _PAN_SHARE, 1))

    def to_edge(self, direction: int) -> None:
        """Move to the beginning (-1) or the end (1) of the trace, keeping the zoom."""
        self.view = self.view.panned(direction * (self.view.last - self.view.first))

    def whole(self) -> None:
        """Show all of the trace."""
        self.view = Viewport.whole(self.view.first, self.view.last)

    def fit(self) -> None:
        """Show the selection as large as it goes; where it is so already, all of the trace."""
        if self.selected is None:
            self.whole()
            return
        fitted = self.view.fitted(self.selected.start, self.selected.end)
        if fitted == self.view:
            self.whole()
        else:
            self.view = fitted

    def move_lane(self, steps: int) -> None:
        """Select the lane so many rows below."""
        lanes = [shown.lane for shown in self.shown()]
        place = lanes.index(self.lane) + steps
        self.lane = lanes[min(max(place, 0), len(lanes) - 1)]
        self._reveal_lane()

    def scroll(self, rows: int) -> None:
        """Scroll the lanes; the selected one may leave the screen."""
        self.top = min(max(self.top + rows, 0), max(len(self.shown()) - self.lane_rows, 0))

    def _reveal_lane(self) -> None:
        lanes = [shown.lane for shown in self.shown()]
        if self.lane not in lanes:
            self.lane = [lane for lane in lanes if lane.track == self.lane.track][-1]
        place = lanes.index(self.lane)
        self.top = min(max(self.top, place - self.lane_rows + 1), place)
        self.scroll(0)

    def fold(self) -> None:
        """Show all depths of the selected thread; then only the first; then as many as fit."""
        states: dict[bool | None, bool | None] = {None: True, True: False, False: None}
        state = states[self._open_tracks.pop(self.lane.track, None)]
        if state is not None:
            self._open_tracks[self.lane.track] = state
        self._reveal_lane()

    def change_threshold(self, step: int) -> None:
        """Count only longer (1) or also shorter (-1) gaps."""
        self._threshold = min(max(self._threshold + step, 0), len(THRESHOLDS) - 1)

    def select(self, selection: Selection | None) -> bool:
        """Select and bring into view, unfolding its thread; False where there is nothing."""
        if selection is None:
            return False
        self.selected, self.lane = selection, selection.lane
        if self.lane not in [shown.lane for shown in self.shown()]:
            self._open_tracks[self.lane.track] = True
        self._reveal_lane()
        self.view = self.view.revealing(selection.start, selection.end)
        return True

    def select_row(self, row: int) -> bool:
        """Select the event of a trace row."""
        lane = None if row == NONE else navigation.lane_of(self.lanes, self.trace, row)
        return lane is not None and self.select(navigation.event(self.trace, lane, row))

    def next_event(self, step: int) -> bool:
        """Select the next (1) or previous (-1) event of the lane."""
        return self.select(
            navigation.neighbour(self.trace, self.lane, self.selected, self.view, step)
        )

    def next_gap(self, step: int) -> bool:
        """Select the next (1) or previous (-1) gap of the lane, close enough to be seen."""
        gap = navigation.next_gap(self.lane, self.selected, self.view, self.threshold, step)
        return self.select(gap) and self._close_in()

    def largest_gap(self) -> bool:
        """Select the largest gap of the lane's device; again, the next smaller."""
        device = self.trace.tracks[self.lane.track].device
        gaps = self.analysis.gaps
        gap = navigation.largest_gap(self.lane, device, gaps, self.selected)
        return self.select(gap) and self._close_in()

    def _close_in(self) -> bool:
        selected = self.selected
        if selected is not None and (selected.end - selected.start) * _SEEN_SHARE < self.view.span:
            self.view = self.view.fitted(selected.start, selected.end).zoomed(
                5, (selected.start + selected.end) // 2
            )
        return True

    def follow_launch(self, step: int) -> bool:
        """From a call to what it launched (1), from a kernel to the call that launched it (-1)."""
        if self.selected is None or self.selected.is_gap:
            return False
        follow = navigation.launched_row if step > 0 else navigation.launching_row
        return self.select_row(follow(self.trace, self.selected.row))

    def jump(self, start: int, end: int, row: int | None) -> None:
        """Show ``start`` to ``end`` and select the gap that these bound, or ``row``."""
        lane = self._lane_of_known_gap(start, end)
        if lane is not None or row is None or not self.select_row(row):
            lane = lane or self._idle_lane(start, end)
            self.select(Selection(start, end, NONE, lane))
        self.view = self.view.fitted(start, end)

    def _lane_of_known_gap(self, start: int, end: int) -> Lane | None:
        """The stream that ends the device's gap from ``start`` to ``end``, where that is one."""
        for gap in self.analysis.gaps:
            if (gap.start, gap.end) == (start, end):
                return navigation.lane_of(self.lanes, self.trace, gap.next_row)
        return None

    def _idle_lane(self, start: int, end: int) -> Lane:
        """The lane on which the stretch is idle: the selected one, or the first that is."""
        for lane in (self.lane, *self.lanes):
            if int(lane.index.busy(start, max(end, start + 1), 1)[0]) == 0:
                return lane
        return self.lane

    def search(self, needle: str) -> int:
        """Find events by a part of their name; how many there are."""
        self._matches = navigation.named_rows(self.trace, needle)
        return self.match_count

    def next_match(self, step: int) -> bool:
        """Select the next (1) or previous (-1) event that the search found, round the end."""
        rows, selected = self._matches, self.selected
        if not len(rows):
            return False
        same = np.flatnonzero(rows == selected.row) if selected is not None else rows[:0]
        if len(same):
            place = int(same[0]) + step
        else:
            here = self.view.start if selected is None else selected.start
            behind = int(np.searchsorted(self.trace.start[rows], np.int64(here)))
            place = behind if step > 0 else behind - 1
        return self.select_row(int(rows[place % len(rows)]))

    def select_at(self, lane: Lane, start: int, end: int) -> None:
        """Select what fills most of ``start`` to ``end`` on ``lane``, or the gap there."""
        self.lane = lane
        row = int(lane.index.dominant(start, max(end, start + 1), 1)[0])
        if row != NONE:
            self.selected = navigation.event(self.trace, lane, row)
        else:
            idle = idle_around(lane, (start + end) // 2, self.view)
            self.selected = Selection(idle.start, idle.end, NONE, lane)
