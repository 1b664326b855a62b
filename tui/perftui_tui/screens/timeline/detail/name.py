"""How one event compares with all others of its name."""

from __future__ import annotations

import numpy as np

from perftui.trace.model import Trace
from perftui_tui.keys.keymap import hint
from perftui_tui.look.units import format_count, format_ns
from perftui_tui.screens.timeline.detail.lines import Line, Place


def name_lines(trace: Trace, row: int) -> list[Line]:
    """How many events of the name there are in the trace, and how long they take: the median is a
    real event's, and of calls in calls of the same name each counts."""
    rows = np.flatnonzero(trace.name == trace.name[row])
    durations = trace.duration[rows]
    middle = (len(rows) - 1) // 2
    median = int(np.partition(durations, middle)[middle])
    longer = int(np.count_nonzero(durations > trace.duration[row]))
    facts = [
        f"of this name: {format_count(len(rows))} {'event' if len(rows) == 1 else 'events'}",
        f"sum {format_ns(int(durations.sum()))}",
        f"shortest {format_ns(int(durations.min()))}",
        f"median {format_ns(median)}",
        f"longest {format_ns(int(durations.max()))}",
        f"{format_count(longer)} longer than this" if longer else "none longer than this",
        hint("{timeline.same_name(-1)} {timeline.same_name(1)} go through those of the thread"),
    ]
    if len(rows) == 1:
        return [Line("the only event of its name", "dim")]
    lines = [Line("  ".join(facts), facts=True)]
    if longer:
        longest = int(rows[int(np.argmax(durations))])
        start = int(trace.start[longest])
        place = Place(start, start + int(trace.duration[longest]), longest)
        lines.append(Line(f"the longest, at {format_ns(start)}", "accent", place=place))
    return lines
