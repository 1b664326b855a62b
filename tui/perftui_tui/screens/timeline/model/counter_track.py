"""A counter as a track of the timeline, and its samples as what can be selected on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis.timeline.track import COUNTER, Counter, Sample, TimelineTrack, TrackIndex
from perftui.trace.model import NONE
from perftui_tui.charts.axis import exact_ns
from perftui_tui.look.format import quantity
from perftui_tui.screens.timeline.model.navigation import Selection
from perftui_tui.screens.timeline.model.viewport import Viewport

BATCHES = "batches"
"""The unit that is a word."""

_ZEROS = re.compile(r"\.0+(?= )")

_WHOLE = ("W", "MHz")
"""Units of which a fraction is beside the point."""


@dataclass(frozen=True, eq=False)
class CounterTrack(TimelineTrack):
    """A track that shows ``counter``; no row of the trace is on it."""

    counter: Counter

    def selection(self, place: int) -> Selection:
        """The sample at ``place``, selected."""
        sample = self.counter.sample(place)
        return Selection(sample.start, sample.end, NONE, self)

    def selected_sample(self, selected: Selection) -> Sample | None:
        """The sample that is selected; None where it is time without one."""
        place = self.counter.place_at(selected.start)
        if place is None:
            return None
        sample = self.counter.sample(place)
        same = (sample.start, sample.end) == (selected.start, selected.end)
        return sample if same else None

    def neighbour(self, selected: Selection | None, view: Viewport, step: int) -> Selection | None:
        """The next (1) or previous (-1) sample from the selection while it is in view, else the
        first or the last of the view."""
        counter = self.counter
        if selected is not None and selected.end > view.start and selected.start < view.end:
            if step > 0:
                place = int(np.searchsorted(counter.start, np.int64(selected.start), side="right"))
            else:
                place = int(np.searchsorted(counter.start, np.int64(selected.start))) - 1
        elif step > 0:
            place = int(np.searchsorted(counter.end, np.int64(view.start), side="right"))
        else:
            place = int(np.searchsorted(counter.start, np.int64(view.end))) - 1
        return self.selection(place) if 0 <= place < len(counter) else None


def counter_tracks(counters: Sequence[Counter]) -> tuple[CounterTrack, ...]:
    """A track for each, one below the other."""
    return tuple(
        CounterTrack(each.name, COUNTER, NONE, depth, _index(each), each)
        for depth, each in enumerate(counters)
    )


def _index(counter: Counter) -> TrackIndex:
    rows = np.arange(len(counter), dtype=np.int32)
    return TrackIndex(rows, counter.start, counter.end)


def value_text(value: float, unit: str) -> str:
    """A value as a person reads it."""
    if unit == BATCHES and value == 1:
        return "1 batch"
    if unit in _WHOLE:
        return f"{value:,.0f} {unit}"
    return quantity(value, unit)


def track_labels(counter: Counter) -> tuple[str, ...]:
    """Name and range in words, the longest first."""
    top = _ZEROS.sub("", value_text(counter.top, counter.unit)).replace(",", "")
    if counter.unit == BATCHES:
        top = f"{counter.top:.0f}"
    span = f"0-{top}" if counter.top else top
    return (
        f"{counter.name} {span}",
        f"{counter.short} {span}",
        f"{counter.short} {span.replace(' ', '')}",
        counter.name,
        counter.short,
    )


def rounded(interval: int) -> str:
    """The usual time between samples: nobody keeps it to the millisecond."""
    return exact_ns(max(round(interval, -6), 1_000_000))
