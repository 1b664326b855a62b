"""What the detail tells: all of one event, what lies between marks, where to look in a trace."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from perftui.analysis.kernels.names import short_names, shown_name
from perftui.analysis.model import KernelTable, OpTable, TraceAnalysis
from perftui.analysis.recorded_steps import ONLY_STEPS
from perftui.analysis.steps import median_duration, slow_steps
from perftui.analysis.timeline.measure import Launches, Measure, NameTime, measure, rows_inside
from perftui.analysis.timeline.tracks import device_label, track_label
from perftui.facts.fact import Facts
from perftui.facts.gpu.idle import idle_by_cause
from perftui.format import middle
from perftui.run.reader import RunSnapshot
from perftui.trace.model import DERIVED, NONE, Int64, Trace, TraceError
from perftui.trace.text import printable
from perftui_tui.keys.own_keys import hint
from perftui_tui.look.format import counted, format_bytes, format_count, format_ns, format_percent
from perftui_tui.panes.step_bar import LONGEST_NAME, cause_text, gap_text
from perftui_tui.screens.timeline.detail_pane import Line, Target, cut, exact_lines, place_of_event
from perftui_tui.screens.timeline.navigation import Selection, place_of
from perftui_tui.screens.timeline.track_cells import kind_of, phase_label

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
    index, place = selected.track.index, place_of(selected.track, row)
    if place:
        yield f"gap before {format_ns(int(index.start[place] - index.end[place - 1]))}"
    if place + 1 < len(index):
        yield f"gap after {format_ns(int(index.start[place + 1] - index.end[place]))}"
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
    name = middle(printable(shown_name(trace, other)), LONGEST_NAME)
    # Clocks of host and device are joined by the driver, and off by a microsecond or two.
    before = "before the call (clock skew)" if waited < 0 else "after the call"
    waiting = f"began {format_ns(abs(waited))} {before}"
    text = f"{what} {name}{more} ({where}), {waiting}  {key} jumps there"
    yield Line(text, "accent", place=place_of_event(trace, other))


def self_time(trace: Trace, row: int) -> int:
    """Nanoseconds of ``row`` outside its calls, which nest and do not overlap each other."""
    inside = slice(row, row + rows_inside(trace, row))
    return int(trace.duration[row]) - int(trace.duration[inside][trace.parent[inside] == row].sum())


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
            rest.append(Line(f"{printable(key)}:", "dim"))
            frames = cut(str(value), _LONGEST_VALUE).replace("\n", ";").split(";")
            rest += [Line(f"  {printable(one.strip())}") for one in frames if one.strip()]
        elif len(text) > _SHORT_VALUE:
            rest.append(Line(text))
        else:
            short.append(text.replace("  ", " "))
    first = [line for _, line in sorted(shapes, key=lambda each: each[0])]
    together = [Line("  ".join(short), facts=True)] if short else []
    return [*first, *together, *rest]


MOST_NAMES = 200
"""Names that are listed; the others are counted."""

MOST_THREADS = 4

_FIGURES = "{:>10}  {:>10}  {:>9}  {}"


def measure_lines(trace: Trace, measured: Measure) -> list[Line]:
    """The range, busy and idle time of each device, of the busiest threads, and time by name."""
    return [
        Line(f"measured {format_ns(measured.duration)}", "bold"),
        Line(f"at {format_ns(measured.start)}", facts=True),
        *(Line(line, facts=True) for line in _busy(trace, measured)),
        *name_rows(measured.names),
        *exact_lines(measured.start, measured.end),
    ]


def _busy(trace: Trace, measured: Measure) -> Iterator[str]:
    def of(time: int) -> str:
        share = time / measured.duration if measured.duration else None
        return f"{format_ns(time)} ({format_percent(share)})"

    for one in measured.devices:
        name, idle = device_label(trace, one.device), measured.duration - one.time
        activities = counted(one.events, "activity", "activities")
        yield f"{name}  busy {of(one.time)}  idle {of(idle)}  {activities}"
    for one in measured.threads[:MOST_THREADS]:
        label, events = printable(track_label(trace, one.track)), counted(one.events, "event")
        yield f"{label}  in operators and calls {of(one.time)}  {events}"
    left = len(measured.threads) - MOST_THREADS
    if left > 0:
        yield f"and {counted(left, 'less busy thread')}"


def name_rows(names: Sequence[NameTime]) -> list[Line]:
    """A table of time by name, under its heads."""
    if not names:
        return [Line("no events in this range")]
    listed = names[:MOST_NAMES]
    kernels = short_names(one.name for one in listed if one.on_device)
    lines = [Line(_FIGURES.format("own time", "with calls", "events", "name"), "dim", one_row=True)]
    for one in listed:
        # What runs on a device calls nothing.
        total = "" if one.on_device else format_ns(one.total)
        name = cut(printable(kernels[one.name] if one.on_device else one.name), 200)
        where = f"GPU  {name}" if one.on_device else name
        text = _FIGURES.format(format_ns(one.own), total, format_count(one.calls), where)
        lines.append(Line(text, one_row=True))
    if len(names) > MOST_NAMES:
        rest = f"and {counted(len(names) - MOST_NAMES, 'name')} with less time"
        lines.append(Line(rest, "dim"))
    return lines


def further_lines(trace: Trace, selected: Selection, helpers: Collection[int] = ()) -> list[Line]:
    """Arguments of an event and others of its name; what the CPU did during idle time, without the
    threads that only help; last all digits of its times."""
    exactly = exact_lines(selected.start, selected.end)
    if selected.is_gap:
        return [*_meanwhile(trace, selected, helpers), *exactly]
    try:
        arguments = trace.read_arguments(selected.row)
    except (OSError, TraceError) as error:
        arguments = {"arguments cannot be read": error}
    return [*argument_lines(arguments), *_name_lines(trace, selected.row), *exactly]


def _meanwhile(trace: Trace, selected: Selection, helpers: Collection[int]) -> list[Line]:
    # Of several ranks what another one did is not why this one idled.
    rank = trace.tracks[selected.track.track].rank
    found = measure(trace, selected.start, selected.end, rank, helpers)
    on_cpu = [one for one in found.names if not one.on_device]
    if not on_cpu:
        return [Line("nothing was recorded on any CPU thread meanwhile", "dim")]
    facts = ["meanwhile on the CPU"]
    if found.threads:
        busiest = found.threads[0]
        where = printable(track_label(trace, busiest.track))
        facts.append(f"{where} in operators and calls for {format_ns(busiest.time)}")
    else:
        facts.append("only ranges, no operators or calls")
    return [Line("  ".join(facts), "bold", facts=True), *name_rows(on_cpu)]


def _name_lines(trace: Trace, row: int) -> list[Line]:
    """How many events have the name and how long they take; nested calls of one name each count."""
    rows = np.flatnonzero(trace.name == trace.name[row])
    if len(rows) == 1:
        return [Line("the only event with this name", "dim")]
    durations = trace.duration[rows]
    middle = (len(rows) - 1) // 2
    median = int(np.partition(durations, middle)[middle])
    longer = int(np.count_nonzero(durations > trace.duration[row]))
    facts = [
        f"with this name: {counted(len(rows), 'event')}",
        f"sum {format_ns(int(durations.sum()))}",
        f"shortest {format_ns(int(durations.min()))}",
        f"median {format_ns(median)}",
        f"longest {format_ns(int(durations.max()))}",
        f"{format_count(longer)} longer" if longer else "none longer",
        hint("{timeline.same_name(-1)} {timeline.same_name(1)} step through those of this thread"),
    ]
    lines = [Line("  ".join(facts), facts=True)]
    if longer:
        place = place_of_event(trace, int(rows[int(np.argmax(durations))]))
        lines.append(Line(f"the longest, at {format_ns(place.start)}", "accent", place=place))
    return lines


HINT = (
    "click an event, or press {timeline.event(1)} for the next event, {timeline.gap(1)} for the "
    "next gap, {timeline.largest_gap} for the largest gap"
)

MOST_TOP = 12
"""Operators, or kernels, that are listed."""

MOST = 8
"""Lines of each kind."""


def summary_lines(analysis: TraceAnalysis, run: RunSnapshot | None = None) -> list[Line]:
    """Slow steps, idle time by cause, long gaps and long operators, the longest first; each line
    leads to its place. Samples of ``run``, whose window it is, name the lines of the script."""
    lines = [Line(hint(HINT), "dim"), *_steps(analysis)]
    trace, ops, kernels = analysis.trace, analysis.ops, analysis.kernels
    if ONLY_STEPS in trace.metadata:
        return lines
    if not analysis.has_tables:
        return [*lines, Line("gaps and their causes follow once the whole trace is read", "dim")]
    lines += [*_idle(analysis, run), *_gaps(analysis)]
    if analysis.has_gpu:
        lines += _top("GPU activity by time", trace, kernels, kernels.short_names, kernels.total)
    return [*lines, *_top("operators by own CPU time", trace, ops, ops.names, ops.cpu_self)]


def _steps(analysis: TraceAnalysis) -> Iterator[Line]:
    steps = analysis.steps
    if not steps:
        return
    if analysis.ranks:
        yield from _steps_by_rank(analysis)
        return
    median = median_duration(steps)
    slow = sorted(slow_steps(steps), key=lambda step: -step.duration)
    slower = f"{format_count(len(slow))} slow" if slow else "none 10 % slower"
    keys = hint("{timeline.step(1)} next, {timeline.slow_step(1)} next slow")
    facts = f"{counted(len(steps), 'step')}, median {format_ns(median)}, {slower}"
    yield Line(f"{facts}  {keys}", "bold")
    for step in slow[:MOST]:
        over = format_percent(step.duration / median - 1)
        text = f"{format_ns(step.duration):>10}  step {step.index}, {over} above the median"
        yield Line(text, place=Target(step.start, step.end, step.row))


def _steps_by_rank(analysis: TraceAnalysis) -> Iterator[Line]:
    """The slowest ranks first; each leads to its slowest step."""
    keys = hint("{timeline.step(1)} next, {timeline.slow_step(1)} next slow, in the selected rank")
    yield Line(f"steps by rank, the slowest first  {keys}", "bold")
    found = [(rank, analysis.steps_of(rank)) for rank in analysis.ranks]
    medians = {rank: median_duration(steps) for rank, steps in found if steps}
    slowest = sorted(((r, s) for r, s in found if s), key=lambda each: -medians[each[0]])
    for rank, steps in slowest[:MOST]:
        longest = max(steps, key=lambda step: step.duration)
        slow = len(slow_steps(steps))
        facts = [
            f"{format_ns(medians[rank]):>10}",
            f"rank {rank}",
            counted(len(steps), "step"),
            f"{format_count(slow)} slow" if slow else "none 10 % slower",
        ]
        yield Line("  ".join(facts), place=Target(longest.start, longest.end, longest.row))
    left = len(slowest) - MOST
    if left > 0:
        yield Line(f"{'':>10}  and {counted(left, 'faster rank')}", "dim")


def _idle(analysis: TraceAnalysis, run: RunSnapshot | None) -> Iterator[Line]:
    """How long each cause kept a GPU idle; each line leads to the longest such gap."""
    causes = idle_by_cause(Facts(run, analysis))
    if not causes:
        return
    yield Line("GPU idle by cause", "bold")
    many = bool(analysis.ranks) or len({one.device for one in causes}) > 1
    for one in causes[:MOST]:
        device = device_label(analysis.trace, one.device) if many else ""
        place = Target(one.longest.start, one.longest.end) if one.longest else None
        yield Line(cause_text(one, device), one_row=True, place=place)


def _gaps(analysis: TraceAnalysis) -> Iterator[Line]:
    if not analysis.gaps:
        return
    yield Line(hint("largest gaps of the GPU  {timeline.largest_gap} next"), "bold")
    many = bool(analysis.ranks) or len({gap.device for gap in analysis.gaps}) > 1
    for gap in analysis.gaps[:MOST]:
        device = device_label(analysis.trace, gap.device) if many else ""
        yield Line(gap_text(gap, analysis.trace, device), place=Target(gap.start, gap.end))


def _top(
    title: str, trace: Trace, table: OpTable | KernelTable, names: Sequence[str], times: Int64
) -> Iterator[Line]:
    """The rows of a table with the most time; each leads to its longest call."""
    if not len(table):
        return
    yield Line(title, "bold")
    for at in np.argsort(-times, kind="stable")[:MOST_TOP].tolist():
        name = middle(printable(names[at]), LONGEST_NAME)
        calls = counted(int(table.calls[at]), "call")
        text = f"{format_ns(int(times[at])):>10}  {name}  {calls}"
        yield Line(text, place=place_of_event(trace, int(table.first_row[at])))
