"""The state of the timeline: the view, the track, the selection, what is folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from perftui.analysis.intervals import Intervals
from perftui.analysis.model import Step, TraceAnalysis
from perftui.analysis.steps import slow_steps
from perftui.analysis.timeline.measure import Launches
from perftui.analysis.timeline.track import COUNTER, WHOLE, TimelineTrack
from perftui.analysis.timeline.tracks import HelperThreads
from perftui.trace.model import NONE
from perftui_tui.screens.timeline import navigation
from perftui_tui.screens.timeline.counters import CounterTrack
from perftui_tui.screens.timeline.gaps import THRESHOLDS, DeviceGaps, idle_around, is_nested
from perftui_tui.screens.timeline.navigation import Matches, Selection, TimeMarks, Viewport
from perftui_tui.screens.timeline.tracks import TrackList, TrackOrder

Phases = Mapping[str, Intervals]
"""Exclusive, by name, in drawing order."""

_SEEN_SHARE = 40
"""A gap shorter than this part of the view cannot be seen: the view closes in on it."""


class TimelineState(TrackList):
    """All that keys and mouse change. Knows nothing of the screen but the rows it has for tracks.

    ``analysis`` must hold at least one event; ``tracks`` are those of its trace. ``order`` is what
    is hidden, moved and pinned. Takes a second for ten million events that are launches."""

    def __init__(
        self,
        analysis: TraceAnalysis,
        tracks: Sequence[TimelineTrack],
        order: TrackOrder | None = None,
        counters: Sequence[CounterTrack] = (),
        helpers: Sequence[HelperThreads] = (),
    ) -> None:
        super().__init__(analysis.trace, tracks, order, counters, helpers)
        self.counters = tuple(counters)
        self.analysis = analysis
        self.gaps = DeviceGaps(analysis.gaps)
        self.launches = Launches(analysis.trace)
        self.phases: Phases = {}
        self.main_track = NONE
        """The thread that trains, NONE where it is not known."""
        last = int((self.trace.start + self.trace.duration).max())
        self.view = Viewport.whole(int(self.trace.start.min()), last)
        self.selected: Selection | None = None
        self.marks = TimeMarks()
        self.matches: Matches | None = None
        # Gaps from 50 µs on are worth a look.
        self._threshold = THRESHOLDS.index(50_000)
        self._steps: dict[int, tuple[Step, ...]] = {}

    @property
    def threshold(self) -> int:
        """Nanoseconds from which idle time counts as a gap."""
        return THRESHOLDS[self._threshold]

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps: of several ranks those of the rank whose track is selected."""
        rank = self._rank(self.track)
        if rank not in self._steps:
            self._steps[rank] = self.analysis.steps_of(rank)
        return self._steps[rank]

    def zoom(self, factor: float, anchor: int | None = None) -> None:
        """Zoom about ``anchor``, or about the selection while it is in view, or the middle."""
        view, selected = self.view, self.selected
        if anchor is None:
            anchor = (view.start + view.end) // 2
            middle = (selected.start + selected.end) // 2 if selected else anchor
            anchor = middle if view.start <= middle <= view.end else anchor
        self.view = view.zoomed(factor, anchor)

    def pan(self, steps: int) -> None:
        """Move by a fifth of the view."""
        self.view = self.view.panned(steps * max(self.view.span // 5, 1))

    def show(self, start: int, end: int) -> None:
        """Show an interval of equal length, moved inside the trace."""
        self.view = self.view.showing(start, end)

    def centre_on(self, column: int, columns: int) -> None:
        """Move to a column of a picture of the whole trace; from the whole, close in on a tenth."""
        whole = Viewport.whole(self.view.first, self.view.last)
        time, span = whole.time(column, columns), self.view.span
        if span == whole.span:
            span //= 10
        self.view = self.view.showing(time - span // 2, time + span - span // 2)

    def to_edge(self, direction: int) -> None:
        """Move to the beginning (-1) or the end (1) of the trace, keeping the zoom."""
        self.view = self.view.panned(direction * (self.view.last - self.view.first))

    def whole(self) -> None:
        self.view = Viewport.whole(self.view.first, self.view.last)

    def fit(self) -> None:
        """Show the selection as large as it goes; where it is so already, all of the trace."""
        fitted = self.view
        if self.selected is not None:
            fitted = fitted.fitted(self.selected.start, self.selected.end)
        if fitted == self.view:
            self.whole()
        else:
            self.view = fitted

    def change_threshold(self, step: int) -> None:
        """Count only longer (1) or also shorter (-1) gaps."""
        self._threshold = min(max(self._threshold + step, 0), len(THRESHOLDS) - 1)

    def select(self, selection: Selection | None) -> bool:
        """Select and bring into view, unfolding its thread; False where there is nothing."""
        if selection is None:
            return False
        self.selected = selection
        self.unfold(selection.track)
        self.view = self.view.revealing(selection.start, selection.end)
        return True

    def select_row(self, row: int) -> bool:
        return self.select(navigation.shown_event(self.tracks, self.trace, row))

    def next_event(self, step: int) -> bool:
        """Select the next (1) or previous (-1) event or sample of the track."""
        view, track = self.view, self.track
        if not isinstance(track, CounterTrack):
            return self.select(navigation.neighbour(self.trace, track, self.selected, view, step))
        sample = track.neighbour(self.selected, view, step)
        done = self.select(sample)
        # The view stays where any of the sample is seen: it may be far longer.
        if sample and sample.is_in(view):
            self.view = view
        return done

    def next_gap(self, step: int) -> bool:
        """Select the next (1) or previous (-1) gap of the track from the threshold on."""
        index, begin = self.track.index, navigation.begin_of(self.selected, self.view, step)
        search = index.next_gap if step > 0 else index.previous_gap
        return self._select_gap(search(begin, self.threshold))

    def largest_gap(self) -> bool:
        """Select the largest gap of the track's device, or of the track from the threshold on;
        again, the next smaller."""
        track, selected = self.track, self.selected
        device = NONE if track.kind == COUNTER else self.trace.tracks[track.track].device
        own = [(gap.start, gap.end) for gap in self.analysis.gaps if gap.device == device != NONE]
        if not own:
            ends, starts = track.index.end[:-1], track.index.start[1:]
            if is_nested(track):
                # Up to the end of the call or the step around it.
                around = (one for one in self.tracks if one.track == track.track)
                ends = track.index.end
                starts = np.append(starts, max(int(one.index.end[-1]) for one in around))
            longest_first = np.argsort(ends - starts, kind="stable")
            order = longest_first[: np.count_nonzero(starts - ends >= self.threshold)]
            own = list(zip(ends[order].tolist(), starts[order].tolist(), strict=True))
        at = selected and selected.is_gap and (selected.start, selected.end)
        place = own.index(at) + 1 if at in own else 0
        return self._select_gap(own[place % len(own)] if own else None)

    def _select_gap(self, gap: tuple[int, int] | None) -> bool:
        """Select a gap of the track, close enough to be seen; False where there is none."""
        if gap is None:
            return False
        self.select(Selection(*gap, NONE, self.track))
        if (gap[1] - gap[0]) * _SEEN_SHARE < self.view.span:
            self.view = self.view.fitted(*gap).zoomed(5, sum(gap) // 2)
        return True

    def follow_launch(self, step: int) -> bool:
        """From a call to what it launched (1), from a kernel to the call that launched it (-1)."""
        if self.selected is None or self.selected.is_gap:
            return False
        if step < 0:
            return self.select_row(self.launches.launching(self.selected.row))
        launched = self.launches.launched(self.selected.row)
        return bool(len(launched)) and self.select_row(int(launched[0]))

    def same_name(self, step: int) -> bool:
        """Select the next (1) or previous (-1) event of the selected one's name and thread."""
        if self.selected is None or self.selected.is_gap:
            return False
        return self.select_row(navigation.same_name(self.trace, self.selected.row, step))

    def next_step(self, step: int, *, is_slow: bool = False) -> bool:
        """Show the next (1) or previous (-1) step, or the next that is slower than the others, from
        the selection on while it is in view, else from the middle of a part of the trace."""
        steps, view, selected = self.steps, self.view, self.selected
        begin = (view.start + view.end) // 2
        if (selected and selected.is_in(view)) or view.span == view.last - view.first:
            begin = navigation.begin_of(selected, view, step)
        every = (slow_steps(steps) if is_slow else steps)[::step]
        found = next((one for one in every if (one.start - begin) * step > 0), None)
        if found is None:
            return False
        if not self.select_row(found.row):
            self.selected = None
        self.view = self.view.fitted(found.start, found.end)
        return True

    def mark(self) -> None:
        """Set a mark at the selection, or in the middle of the view."""
        middle = (self.view.start + self.view.end) // 2
        selected = self.selected
        span = (selected.start, selected.end) if selected else (middle, middle)
        self.marks = self.marks.marked(*span)

    def mark_selection(self) -> None:
        """Set both marks around the selection, or around the view where nothing is selected."""
        around = self.selected or self.view
        self.marks = TimeMarks(around.start, around.end)

    def mark_range(self, first: int, second: int) -> None:
        """Set both marks, clipped to the trace."""
        low, high = self.view.first, self.view.last
        self.marks = TimeMarks(min(max(first, low), high), min(max(second, low), high))

    def clear(self) -> bool:
        """Take away the marks, else matches, else the selection; False where there is none."""
        if self.marks != TimeMarks():
            self.marks = TimeMarks()
        elif self.matches is not None:
            self.matches = None
        elif self.selected is not None:
            self.selected = None
        else:
            return False
        return True

    def jump(self, start: int, end: int, row: int | None) -> None:
        """Show ``start`` to ``end`` and select the gap that these bound, or ``row``."""
        track = self._track_of_known_gap(start, end)
        if track is not None or row is None or not self.select_row(row):
            # Where the interval is idle: on the selected track, or the first on which it is.
            every, behind = (self.track, *self.tracks), max(end, start + 1)
            idle = (one for one in every if not one.index.busy(start, behind, 1)[0])
            track = track or next(idle, self.track)
            self.select(Selection(start, end, NONE, track))
        self.view = self.view.fitted(start, end)

    def _track_of_known_gap(self, start: int, end: int) -> TimelineTrack | None:
        """The device that has a gap from ``start`` to ``end``, or the stream that ends it."""
        known = (gap for gap in self.analysis.gaps if (gap.start, gap.end) == (start, end))
        gap = next(known, None)
        if gap is None:
            return None
        for track in self.tracks:
            if track.kind == WHOLE and self.trace.tracks[track.track].device == gap.device:
                return track
        beside = gap.previous_row if gap.next_row == NONE else gap.next_row
        return navigation.track_of(self.tracks, self.trace, beside)

    def next_match(self, step: int) -> bool:
        """Select the next (1) or previous (-1) event that the search found, round the end."""
        if self.matches is None:
            return False
        selected = self.selected
        row, here = (selected.row, selected.start) if selected else (NONE, self.view.start)
        return self.select_row(self.matches.beside(row, here, step))

    def select_at(self, track: TimelineTrack, start: int, end: int) -> None:
        """Select what fills most of ``start`` to ``end`` on ``track``, or the gap there; of a
        counter the sample that stands for the middle."""
        self.track = track
        middle = (start + end) // 2
        if isinstance(track, CounterTrack) and (at := track.counter.place_at(middle)) is not None:
            self.selected = track.selection(at)
            return
        is_counter = track.kind == COUNTER
        row = NONE if is_counter else int(track.index.dominant(start, max(end, start + 1), 1)[0])
        if row != NONE:
            self.selected = navigation.event(self.trace, track, row)
        else:
            self.selected = Selection(*idle_around(track, middle, self.view), NONE, track)
