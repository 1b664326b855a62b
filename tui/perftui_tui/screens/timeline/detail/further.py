"""Detail of a selection that is shown a moment later, as it takes longer to work out."""

from __future__ import annotations

import numpy as np

from perftui.analysis.timeline.measure import measure
from perftui.analysis.timeline.tracks import track_label
from perftui.trace.model import Trace, TraceError
from perftui.trace.text import printable
from perftui_tui.keys.keymap import hint
from perftui_tui.look.units import format_count, format_ns
from perftui_tui.screens.timeline.detail.event import argument_lines
from perftui_tui.screens.timeline.detail.lines import Line, place_of_event
from perftui_tui.screens.timeline.detail.measure import name_rows
from perftui_tui.screens.timeline.detail.times import exact_lines
from perftui_tui.screens.timeline.model.navigation import Selection


def further_lines(trace: Trace, selected: Selection) -> list[Line]:
    """Arguments of an event and others of its name; what the CPU did during idle time; last all
    digits of its times."""
    exactly = exact_lines(selected.start, selected.end)
    if selected.is_gap:
        return [*_meanwhile(trace, selected), *exactly]
    return [*_arguments(trace, selected.row), *_name_lines(trace, selected.row), *exactly]


def _arguments(trace: Trace, row: int) -> list[Line]:
    try:
        return argument_lines(trace.read_arguments(row))
    except (OSError, TraceError) as error:
        return argument_lines({"arguments cannot be read": error})


def _meanwhile(trace: Trace, selected: Selection) -> list[Line]:
    # Of several ranks what another one did is not why this one idled.
    rank = trace.tracks[selected.track.track].rank
    found = measure(trace, selected.start, selected.end, rank)
    on_cpu = [one for one in found.names if not one.on_device]
    if not on_cpu:
        return [Line("nothing was recorded on any CPU thread meanwhile", "dim")]
    facts = ["meanwhile on the CPU"]
    if found.threads:
        busiest = found.threads[0]
        where = printable(track_label(trace, busiest.track))
        facts.append(f"{where} in operators and calls for {format_ns(busiest.time)}")
    else:
        facts.append("no operators or calls")
    return [Line("  ".join(facts), "bold", facts=True), *name_rows(on_cpu)]


def _name_lines(trace: Trace, row: int) -> list[Line]:
    """How many events have the name and how long they take; nested calls of one name each count."""
    rows = np.flatnonzero(trace.name == trace.name[row])
    durations = trace.duration[rows]
    middle = (len(rows) - 1) // 2
    median = int(np.partition(durations, middle)[middle])
    longer = int(np.count_nonzero(durations > trace.duration[row]))
    facts = [
        f"with this name: {format_count(len(rows))} {'event' if len(rows) == 1 else 'events'}",
        f"sum {format_ns(int(durations.sum()))}",
        f"shortest {format_ns(int(durations.min()))}",
        f"median {format_ns(median)}",
        f"longest {format_ns(int(durations.max()))}",
        f"{format_count(longer)} longer" if longer else "none longer",
        hint("{timeline.same_name(-1)} {timeline.same_name(1)} step through those of this thread"),
    ]
    if len(rows) == 1:
        return [Line("the only event with this name", "dim")]
    lines = [Line("  ".join(facts), facts=True)]
    if longer:
        longest = int(rows[int(np.argmax(durations))])
        place = place_of_event(trace, longest)
        lines.append(Line(f"the longest, at {format_ns(place.start)}", "accent", place=place))
    return lines
