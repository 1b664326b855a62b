"""What was measured between two marks, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from perftui.analysis.kernels.names import short_names
from perftui.analysis.timeline.measure import Busy, Measure, NameTime
from perftui.analysis.timeline.tracks import device_label, track_label
from perftui.trace.model import Trace
from perftui.trace.text import printable
from perftui_tui.look.units import format_count, format_ns, format_percent
from perftui_tui.screens.timeline.detail.lines import Line, cut
from perftui_tui.screens.timeline.detail.times import began, exact_lines

MOST_NAMES = 200
"""Names that are listed; the others are counted."""

MOST_THREADS = 4

_LONGEST_NAME = 200
_FIGURES = "{:>10}  {:>10}  {:>9}  {}"


def measure_lines(trace: Trace, measured: Measure) -> list[Line]:
    """The range, busy and idle time of each device, of the busiest threads, and time by name."""
    return [
        Line(f"measured {format_ns(measured.duration)}", "bold"),
        Line(began(measured.start), facts=True),
        *(Line(_device(trace, one, measured), facts=True) for one in measured.devices),
        *(Line(line, facts=True) for line in _threads(trace, measured)),
        *name_rows(measured.names),
        *exact_lines(measured.start, measured.end),
    ]


def _device(trace: Trace, one: Busy, measured: Measure) -> str:
    idle = measured.duration - one.time
    name = device_label(trace, one.device)
    return (
        f"{name}  busy {_of(one.time, measured)}  idle {_of(idle, measured)}"
        f"  {_several(one.events, 'activity', 'activities')}"
    )


def _threads(trace: Trace, measured: Measure) -> Iterator[str]:
    for one in measured.threads[:MOST_THREADS]:
        label = printable(track_label(trace, one.track))
        events = _several(one.events, "event", "events")
        yield f"{label}  in operators and calls {_of(one.time, measured)}  {events}"
    left = len(measured.threads) - MOST_THREADS
    if left > 0:
        yield f"and {_several(left, 'less busy thread', 'less busy threads')}"


def _of(time: int, measured: Measure) -> str:
    share = time / measured.duration if measured.duration else None
    return f"{format_ns(time)} ({format_percent(share)})"


def _several(count: int, one: str, many: str) -> str:
    return f"{format_count(count)} {one if count == 1 else many}"


def name_rows(names: Sequence[NameTime]) -> list[Line]:
    """A table of time by name, under its heads."""
    if not names:
        return [Line("no events in this range")]
    listed = names[:MOST_NAMES]
    shown = short_names(one.name for one in listed if one.on_device)
    left = len(names) - MOST_NAMES
    rest = [Line(f"and {_several(left, 'name', 'names')} with less time", "dim")]
    return [
        Line(_FIGURES.format("own time", "with calls", "events", "name"), "dim", one_row=True),
        *(Line(_name(one, shown), one_row=True) for one in listed),
        *(rest if left > 0 else ()),
    ]


def _name(one: NameTime, kernels: Mapping[str, str]) -> str:
    """What runs on a device calls nothing."""
    total = "" if one.on_device else format_ns(one.total)
    name = cut(printable(kernels[one.name] if one.on_device else one.name), _LONGEST_NAME)
    where = "GPU  " if one.on_device else ""
    return _FIGURES.format(format_ns(one.own), total, format_count(one.calls), where + name)
