"""Counters on the timeline: as tracks, as cells, and as lines of the detail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis.timeline.track import COUNTER, Counter, Sample, TimelineTrack, TrackIndex
from perftui.trace.model import NONE
from perftui.trace.text import printable
from perftui_tui.charts.cells import ASCII_LEVELS, LOWER_EIGHTHS, column_steps, exact_ns
from perftui_tui.look.format import counted, format_count, format_ns, quantity
from perftui_tui.screens.timeline.detail_pane import Line, exact_lines
from perftui_tui.screens.timeline.navigation import Selection, Viewport
from perftui_tui.screens.timeline.track_cells import BLANK, Cell, Glyphs, narrow, put

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
        if selected is not None and selected.is_in(view):
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
    tracks = []
    for depth, each in enumerate(counters):
        index = TrackIndex(np.arange(len(each), dtype=np.int32), each.start, each.end)
        tracks.append(CounterTrack(each.name, COUNTER, NONE, depth, index, each))
    return tuple(tracks)


def value_text(value: float, unit: str) -> str:
    """A value as a person reads it."""
    if unit == BATCHES and value == 1:
        return "1 batch"
    return f"{value:,.0f} {unit}" if unit in _WHOLE else quantity(value, unit)


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


DRAWN, HELD, VALUE = "counter", "muted", "step"
"""Styles: a column near a sample, one of a view without any, and words."""

NO_SAMPLE = "no sample"

_BESIDE = 2
"""Cells of a sample that are left free of its value, to be seen."""


def counter_cells(counter: Counter, view: Viewport, columns: int, glyphs: Glyphs) -> list[Cell]:
    """Each column as high as the mean over what is known of it; blank where nothing is.

    A sample that has room has its value in words. Where no sample was taken in the view, what is
    drawn is from outside it: dim, and with words that say so."""
    ramp = ASCII_LEVELS if glyphs.ascii_only else LOWER_EIGHTHS
    means = counter.means(view.start, view.end, columns)
    # The view has a sample of its own, or the counter has every change.
    is_near = not counter.interval or counter.is_sampled_in(view.start, view.end)
    style = DRAWN if is_near else HELD
    levels = [column_steps(mean, counter.top, len(ramp) - 1) for mean in means.tolist()]
    cells = [(ramp[level], style) if level else BLANK for level in levels]
    inside = int(np.searchsorted(counter.end, np.int64(view.start), side="right"))
    behind = int(np.searchsorted(counter.start, np.int64(view.end), side="left"))
    # More than there are columns have no words.
    for sample in map(counter.sample, range(inside, behind) if behind - inside <= columns else ()):
        first = view.column(max(sample.start, view.start), columns)
        last = view.column(min(sample.end, view.end) - 1, columns)
        # A column in the middle of which it begins is partly that of the sample before.
        first += view.start + first * view.span // columns < sample.start
        value = value_text(sample.value, counter.unit)
        texts = (value,) if is_near else (f"{value}, {sampling(counter)}", value)
        text = next((each for each in texts if len(each) + _BESIDE <= last - first + 1), "")
        put(cells, first, narrow(text), VALUE if is_near else HELD)
    # In wide blanks it is said that nothing is known there.
    known = "".join(" " if cell == BLANK else "x" for cell in cells)
    for blanks in re.finditer(f" {{{len(NO_SAMPLE) + 2 * _BESIDE},}}", known):
        put(cells, blanks.start() + _BESIDE, NO_SAMPLE, HELD)
    return cells


def sampling(counter: Counter) -> str:
    """How often it was sampled, in words."""
    return f"sampled every {rounded(counter.interval)}" if counter.interval else "every change"


_HEAD = "whole trace"
HOLDS = "holds until the next change"


def counter_lines(track: CounterTrack, selected: Selection) -> list[Line]:
    """Value, what it stands for, where it is from, and the range of all samples in the trace."""
    counter, sample = track.counter, track.selected_sample(selected)
    times, exactly = f"at {format_ns(selected.start)}", exact_lines(selected.start, selected.end)
    if sample is None:
        size = format_ns(selected.end - selected.start)
        title = Line(f"{counter.name}: no sample for {size}", "bold")
        return [title, Line(times, facts=True), *exactly]
    value, number, unit = value_text(sample.value, counter.unit), sample.value, counter.unit
    # All digits where the words are rounded.
    if unit in ("B", "B/s") and number >= 1000:
        value += f" ({number:,.0f} {unit})"
    elif not float(number).is_integer():
        value += f" ({number:,.3f} {unit})"
    meaning = f"sampled every {rounded(counter.interval)}, drawn until the next"
    if counter.is_mean:
        meaning = f"mean since the previous sample, one every {rounded(counter.interval)}"
    figures = (
        f"{counted(len(counter), 'sample' if counter.interval else 'change')} in the trace",
        f"min {value_text(counter.lowest, counter.unit)}",
        f"max {value_text(counter.highest, counter.unit)}",
        f"a full cell is {value_text(counter.top, counter.unit)}",
    )
    return [
        Line(f"{counter.name}: {value}", "bold"),
        Line(f"{meaning if counter.interval else HOLDS}  {times}", facts=True),
        Line("  ".join(figures), facts=True),
        Line(printable(counter.source), "dim"),
        *exactly,
    ]


def counters_at(counters: Sequence[CounterTrack], start: int, end: int) -> list[Line]:
    """The values in the middle of an interval, in one line; none where nothing is known."""
    facts = []
    for track in counters:
        place = track.counter.place_at((start + end) // 2)
        if place is not None:
            value = value_text(track.counter.sample(place).value, track.counter.unit)
            facts.append(f"{track.counter.name} {value}")
    return [Line("  ".join(["meanwhile", *facts]), "dim", facts=True)] if facts else []


def counter_table(counters: Sequence[CounterTrack], view: Viewport) -> Iterator[Line]:
    """Least, mean and largest value of each counter over all of the trace, and how many samples."""
    if not counters:
        return
    names = max(len(_HEAD) - 2, *(len(track.counter.name) for track in counters))
    head = f"{_HEAD:<{names + 2}}  {'min':>12}  {'mean':>12}  {'max':>12}  samples"
    yield Line(head, "bold", one_row=True)
    for track in counters:
        counter = track.counter
        mean = float(counter.means(view.first, view.last, 1)[0])
        values = (counter.lowest, mean, counter.highest)
        cells = "  ".join(f"{value_text(value, counter.unit):>12}" for value in values)
        count = format_count(len(counter))
        yield Line(f"  {counter.name:<{names}}  {cells}  {count:>7}", one_row=True)
