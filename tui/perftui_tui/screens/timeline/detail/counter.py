"""What is known of a sample of a counter, and of all counters at one moment, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perftui.analysis.timeline.track import Counter
from perftui.trace.text import printable
from perftui_tui.look.units import format_count, format_ns
from perftui_tui.screens.timeline.detail.lines import Line
from perftui_tui.screens.timeline.detail.times import began, exact_lines
from perftui_tui.screens.timeline.model.counter_track import CounterTrack, rounded, value_text
from perftui_tui.screens.timeline.model.navigation import Selection
from perftui_tui.screens.timeline.model.viewport import Viewport

_HEAD = "whole trace"


def counter_lines(track: CounterTrack, selected: Selection) -> list[Line]:
    """Value, what it stands for, where it is from, and the range of all samples in the trace."""
    counter, sample = track.counter, track.selected_sample(selected)
    times, exactly = began(selected.start), exact_lines(selected.start, selected.end)
    if sample is None:
        size = format_ns(selected.end - selected.start)
        title = Line(f"{counter.name}: no sample for {size}", "bold")
        return [title, Line(times, facts=True), *exactly]
    value = _exact(sample.value, counter)
    return [
        Line(f"{counter.name}: {value}", "bold"),
        Line(f"{_meaning(counter)}  {times}", facts=True),
        Line("  ".join(_figures(counter)), facts=True),
        Line(printable(counter.source), "dim"),
        *exactly,
    ]


def _exact(value: float, counter: Counter) -> str:
    """The value in words, and all of its digits where these are rounded."""
    words = value_text(value, counter.unit)
    if counter.unit in ("B", "B/s") and value >= 1000:
        return f"{words} ({value:,.0f} {counter.unit})"
    return words if float(value).is_integer() else f"{words} ({value:,.3f} {counter.unit})"


def _meaning(counter: Counter) -> str:
    if not counter.interval:
        return "holds until the next change"
    every = rounded(counter.interval)
    if counter.is_mean:
        return f"mean since the previous sample, one every {every}"
    return f"sampled every {every}, drawn until the next"


def _figures(counter: Counter) -> Iterator[str]:
    count, what = len(counter), "sample" if counter.interval else "change"
    yield f"{format_count(count)} {what}{'' if count == 1 else 's'} in the trace"
    yield f"min {value_text(counter.lowest, counter.unit)}"
    yield f"max {value_text(counter.highest, counter.unit)}"
    yield f"a full cell is {value_text(counter.top, counter.unit)}"


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
