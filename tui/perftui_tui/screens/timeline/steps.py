"""How the steps of a run that goes on are drawn anew: how often, and from the same place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perftui.run.reader import RunSnapshot
from perftui.trace.model import NONE, Trace
from perftui_tui.screens.timeline.model import navigation
from perftui_tui.screens.timeline.model.gap_labels import THRESHOLDS
from perftui_tui.screens.timeline.model.matches import find_matches
from perftui_tui.screens.timeline.model.navigation import Selection, TimeMarks
from perftui_tui.screens.timeline.model.state import TimelineState

LEAST_REST = 2.0
"""Seconds from one drawing to the next: the picture should not change while it is read."""

_REST = 10
"""Rest after a drawing, in times what it took: it never takes more than a tenth of a core."""


class Pace:
    """Calls ``start`` with the newest run, rests after each ``done``; ``later`` is a timer."""

    def __init__(
        self,
        start: Callable[[RunSnapshot], object],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._start, self._later = start, later
        self._wanted: RunSnapshot | None = None
        self._begun: object = None
        self._is_busy = False

    def want(self, run: RunSnapshot) -> None:
        """Ask for the steps of ``run``; nothing where it has the same as those asked for last."""
        if _steps_of(run) != self._begun:
            self._wanted = run
            self._next()

    def forget(self) -> None:
        """Forget what was laid out and what is wanted: neither is shown any more."""
        self._wanted = self._begun = None

    def done(self, seconds: float) -> None:
        """Steps are laid out, or could not be, after ``seconds``."""
        self._later(max(LEAST_REST, _REST * seconds), self._rested)

    def _rested(self) -> None:
        self._is_busy = False
        self._next()

    def _next(self) -> None:
        if self._wanted is None or self._is_busy:
            return
        run, self._wanted = self._wanted, None
        self._is_busy, self._begun = True, _steps_of(run)
        self._start(run)


def _steps_of(run: RunSnapshot) -> object:
    """Differs where a step came."""
    ends = ((rank.rank, len(rank.steps), rank.steps.last("start")) for rank in run.ranks
            if len(rank.steps))  # fmt: skip
    return run.root, tuple(ends)


def stay_in_view(before: TimelineState, after: TimelineState) -> None:
    """Keep the interval in view of a trace that has grown, or all of it where all was in view."""
    view, shift = before.view, before.trace.origin - after.trace.origin
    if view.span < view.last - view.first:
        after.view = after.view.showing(view.start + shift, view.end + shift)


def stay(before: TimelineState, after: TimelineState) -> None:
    """Keep the track, what is selected, marked and found; visits every event."""
    shift = before.trace.origin - after.trace.origin
    after.change_threshold(THRESHOLDS.index(before.threshold) - THRESHOLDS.index(after.threshold))
    after.marks = TimeMarks(_moved(before.marks.first, shift), _moved(before.marks.second, shift))
    if before.matches is not None:
        after.matches = find_matches(after.trace, before.matches.needle)
    after.stay_on(before)
    if before.selected is not None:
        after.selected = _same(before, after, before.selected, shift)


def _moved(time: int | None, shift: int) -> int | None:
    return None if time is None else time + shift


def _same(
    before: TimelineState, after: TimelineState, selected: Selection, shift: int
) -> Selection | None:
    if selected.is_gap:
        return Selection(selected.start + shift, selected.end + shift, NONE, after.track)
    row = _same_row(before.trace, after.trace, selected.row, shift)
    track = None if row == NONE else navigation.track_of(after.tracks, after.trace, row)
    return None if track is None else navigation.event(after.trace, track, row)


def _same_row(before: Trace, after: Trace, row: int, shift: int) -> int:
    """The event in the trace that has grown: rows of further ranks have moved."""
    times = (after.start == before.start[row] + shift) & (after.duration == before.duration[row])
    wanted = before.name_of(row), before.tracks[int(before.track[row])].rank
    for each in np.flatnonzero(times).tolist():
        if (after.name_of(each), after.tracks[int(after.track[each])].rank) == wanted:
            return int(each)
    return NONE
