"""Everything that is known about one event, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perftui.analysis.kernels.names import shown_name
from perftui.analysis.timeline.measure import Launches, rows_inside
from perftui.analysis.timeline.tracks import track_label
from perftui.format import middle
from perftui.trace.model import DERIVED, NONE, Trace
from perftui.trace.text import printable
from perftui_tui.look.units import format_bytes, format_ns
from perftui_tui.screens.timeline.detail.lines import Line, cut, place_of_event
from perftui_tui.screens.timeline.model.event_kinds import kind_of, phase_label
from perftui_tui.screens.timeline.model.navigation import Selection, place_of

_LONGEST_NAME = 60
"""Characters of a name among others: C++ names of kernels fill whole lines."""

_LONGEST_TITLE = 78
"""Characters of the name itself: a row of a screen of the usual width."""

_SHORT_VALUE = 60
"""Characters of an argument that shares a line with others."""

_LONGEST_VALUE = 2_000
"""Characters of one argument: those of whole models run to many thousands."""

_STACKS = ("call stack", "stack", "python stack")
"""Arguments that are frames, one behind the other."""

_FIRST = ("input dims", "input type", "concrete inputs", "input strides", "module hierarchy")
"""Arguments that are shown first."""


def event_lines(trace: Trace, selected: Selection, launches: Launches) -> list[Line]:
    """Name, figures, launch and callers of an event; no text that a terminal acts on."""
    row = selected.row
    name, category = trace.name_of(row), trace.categories[int(trace.category[row])]
    derived = category in DERIVED
    kind = kind_of(category, name).word
    facts = [
        category if derived else f"{printable(category) or 'no category'} ({kind})",
        printable(track_label(trace, int(trace.track[row]))),
        f"start {format_ns(int(trace.start[row]))}",
        f"duration {format_ns(int(trace.duration[row]))}",
        *_figures(trace, selected),
    ]
    callers = caller_names(trace, row, launches)
    title = phase_label(name) if derived else printable(shown_name(trace, row))
    # In full after the figures, which it would push off a small screen.
    is_whole = derived or (title == printable(name) and len(title) <= _LONGEST_TITLE)
    return [
        Line(middle(title, _LONGEST_TITLE), "bold"),
        Line("  ".join(facts), facts=True),
        *_launch(trace, row, launches),
        *([Line(f"in {' < '.join(printable(c) for c in callers)}")] if callers else []),
        *([] if is_whole else [Line(f"full name: {printable(name)}")]),
    ]


def _figures(trace: Trace, selected: Selection) -> Iterator[str]:
    row = selected.row
    track = trace.tracks[int(trace.track[row])]
    if not track.is_device and trace.categories[int(trace.category[row])] not in DERIVED:
        yield f"own {format_ns(self_time(trace, row))}"
    before, after = gaps_around(selected)
    if before is not None:
        yield f"gap before {format_ns(before)}"
    if after is not None:
        yield f"gap after {format_ns(after)}"
    if trace.bytes[row] != NONE:
        yield format_bytes(int(trace.bytes[row]))
    if trace.correlation[row] != NONE:
        yield f"correlation {int(trace.correlation[row])}"


def _launch(trace: Trace, row: int, launches: Launches) -> Iterator[Line]:
    """The other end of the arrow, and how long the work waited for its turn."""
    if trace.tracks[int(trace.track[row])].is_device:
        first, other = row, launches.launching(row)
        what, key, more = "launched by", "[", ""
    else:
        work = launches.launched(row)
        other = first = int(work[0]) if len(work) else NONE
        what, key = "launched", "]"
        more = f" and {len(work) - 1:,} more" if len(work) > 1 else ""
    if other == NONE:
        return
    where = printable(track_label(trace, int(trace.track[other])))
    call = launches.launching(first)
    waited = int(trace.start[first] - trace.start[row if call == NONE else call])
    name = middle(printable(shown_name(trace, other)), _LONGEST_NAME)
    text = f"{what} {name}{more} ({where}), {_later(waited)}  {key} jumps there"
    yield Line(text, "accent", place=place_of_event(trace, other))


def _later(waited: int) -> str:
    """Clocks of host and device are joined by the driver, and off by a microsecond or two."""
    if waited < 0:
        return f"began {format_ns(-waited)} before the call (clock skew)"
    return f"began {format_ns(waited)} after the call"


def self_time(trace: Trace, row: int) -> int:
    """Nanoseconds of ``row`` outside its calls, which nest and do not overlap each other."""
    inside = slice(row, row + rows_inside(trace, row))
    children = trace.duration[inside][trace.parent[inside] == row]
    return int(trace.duration[row]) - int(children.sum())


def gaps_around(selected: Selection) -> tuple[int | None, int | None]:
    """Idle nanoseconds on the track before and after an event; None at the ends of the track."""
    index = selected.track.index
    place = place_of(selected.track, selected.row)
    before = int(index.start[place] - index.end[place - 1]) if place else None
    last = place + 1 == len(index)
    return before, None if last else int(index.start[place + 1] - index.end[place])


def caller_names(trace: Trace, row: int, launches: Launches) -> list[str]:
    """Names of the callers, innermost first; of device activity, the call that launched it."""
    names = []
    if trace.tracks[int(trace.track[row])].is_device:
        row = launches.launching(row)
        if row == NONE:
            return []
        names.append(trace.name_of(row))
    while (row := int(trace.parent[row])) != NONE:
        names.append(trace.name_of(row))
    return names


def argument_lines(arguments: Mapping[str, Any]) -> list[Line]:
    """Shapes first, short arguments together, long ones for themselves, stacks by frame."""
    shapes: list[tuple[int, Line]] = []
    short: list[str] = []
    rest: list[Line] = []
    for key, value in arguments.items():
        text = f"{printable(key)}={printable(cut(str(value), _LONGEST_VALUE))}"
        if key.lower() in _FIRST:
            shapes.append((_FIRST.index(key.lower()), Line(text)))
        elif key.lower() in _STACKS and str(value):
            rest += _frames(key, str(value))
        elif len(text) > _SHORT_VALUE:
            rest.append(Line(text))
        else:
            short.append(text.replace("  ", " "))
    first = [line for _, line in sorted(shapes, key=lambda each: each[0])]
    together = [Line("  ".join(short), facts=True)] if short else []
    return [*first, *together, *rest]


def _frames(key: str, stack: str) -> Iterator[Line]:
    yield Line(f"{printable(key)}:", "dim")
    for frame in cut(stack, _LONGEST_VALUE).replace("\n", ";").split(";"):
        if frame.strip():
            yield Line(f"  {printable(frame.strip())}")
