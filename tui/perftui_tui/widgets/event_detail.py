"""Everything that is known about one event or gap, as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from perftui.analysis.gaps import MOST
from perftui.analysis.lanes import DEVICE, lane_label
from perftui.analysis.model import Gap, TraceAnalysis
from perftui.diagnosis import words
from perftui.diagnosis.main_thread import line_of_gap
from perftui.run.reader import RunSnapshot
from perftui.trace.model import NONE, Trace
from perftui.trace.text import printable
from perftui_tui.charts.axis import exact_ns
from perftui_tui.charts.units import format_bytes, format_ns
from perftui_tui.format import share
from perftui_tui.widgets.event_kinds import kind_of
from perftui_tui.widgets.gap_words import DeviceGaps
from perftui_tui.widgets.navigation import Selection, launching_row

_LONGEST_NAME = 48
"""Characters of a name among others: C++ names of kernels fill whole lines."""

_LONGEST_VALUE = 200
"""Characters of one argument: stacks and shapes of whole models run to thousands."""


def event_lines(trace: Trace, selected: Selection) -> list[str]:
    """Name, figures and callers of an event; no line holds text that a terminal acts on."""
    row = selected.row
    name, category = trace.name_of(row), trace.categories[int(trace.category[row])]
    facts = [
        f"{printable(category) or 'no category'} ({kind_of(category, name).word})",
        printable(lane_label(trace.tracks[int(trace.track[row])])),
        f"start {exact_ns(selected.start)}",
        f"duration {format_ns(selected.end - selected.start)}",
        *_figures(trace, selected),
    ]
    lines = [printable(name), "  ".join(facts)]
    callers = caller_names(trace, row)
    return [*lines, f"in {' < '.join(printable(c) for c in callers)}"] if callers else lines


def _figures(trace: Trace, selected: Selection) -> list[str]:
    row, facts = selected.row, []
    if not trace.tracks[int(trace.track[row])].is_device:
        facts.append(f"self {format_ns(self_time(trace, row))}")
    before, after = gaps_around(selected)
    facts += [f"gap before {format_ns(before)}"] if before is not None else []
    facts += [f"gap after {format_ns(after)}"] if after is not None else []
    if trace.bytes[row] != NONE:
        facts.append(format_bytes(int(trace.bytes[row])))
    if trace.correlation[row] != NONE:
        facts.append(f"correlation {int(trace.correlation[row])}")
    return facts


def self_time(trace: Trace, row: int) -> int:
    """Nanoseconds of ``row`` that are in none of the calls it made.

    Calls of one thread that nest do not overlap each other, so their times can be subtracted.
    """
    low, high = np.searchsorted(trace.track, [trace.track[row], trace.track[row] + 1])
    children = np.flatnonzero(trace.parent[low:high] == row) + low
    return int(trace.duration[row]) - int(trace.duration[children].sum())


def gaps_around(selected: Selection) -> tuple[int | None, int | None]:
    """Idle nanoseconds on the lane before and after an event; None at the ends of the lane."""
    index = selected.lane.index
    place = int(np.searchsorted(index.rows, selected.row))
    before = int(index.start[place] - index.end[place - 1]) if place else None
    last = place + 1 == len(index)
    return before, None if last else int(index.start[place + 1] - index.end[place])


def caller_names(trace: Trace, row: int) -> list[str]:
    """Names of the callers, innermost first; of device activity, the call that launched it."""
    names = []
    if trace.tracks[int(trace.track[row])].is_device:
        row = launching_row(trace, row)
        if row == NONE:
            return []
        names.append(trace.name_of(row))
    while (row := int(trace.parent[row])) != NONE:
        names.append(trace.name_of(row))
    return names


def argument_line(arguments: Mapping[str, Any]) -> str:
    """The arguments of an event on one line."""
    shown = (f"{key}={_shortened(value)}" for key, value in arguments.items())
    return printable("  ".join(shown))


def _shortened(value: Any) -> str:
    return _cut(str(value), _LONGEST_VALUE)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def panel_lines(lines: Sequence[str], width: int, height: int) -> list[str]:
    """``lines`` (a name, its figures, then the rest) for a panel: at most ``height`` lines.

    Figures are wrapped between each other. Of the rest each gets one line, and what room is left
    goes to the later ones first and to the name last, which is on the timeline too.
    """
    if width < 2:
        return []
    wrapped = [wrap(line, width) or [""] for line in lines]
    if len(lines) > 1:
        wrapped[1] = _wrapped_facts(lines[1], width)
    keep = [1] * len(lines)
    order = sorted(range(len(lines)), key=lambda index: (index == 0, index))
    for index in order:
        spare = max(height - sum(keep), 0)
        keep[index] += min(len(wrapped[index]) - 1, spare)
    shown = [
        rows
        if len(rows) == count
        else [*rows[: count - 1], _cut(" ".join(rows[count - 1 :]), width)]
        for rows, count in zip(wrapped, keep, strict=True)
    ]
    return [row for rows in shown for row in rows][:height]


def _wrapped_facts(line: str, width: int) -> list[str]:
    """Facts, which two blanks part, on lines of at most ``width``; none is parted from its unit."""
    rows = [""]
    for fact in line.split("  "):
        longer = f"{rows[-1]}  {fact}" if rows[-1] else fact
        if len(longer) <= width:
            rows[-1] = longer
        else:
            rows.append(fact)
    return [row for row in rows if row]


def gap_lines(
    analysis: TraceAnalysis,
    gaps: DeviceGaps,
    selected: Selection,
    run: RunSnapshot | None = None,
) -> list[str]:
    """What is known about an idle stretch: how long, why, and what went on meanwhile.

    In a window of ``run`` also where its main thread was, as far as it was looked at.
    """
    trace = analysis.trace
    device = trace.tracks[selected.lane.track].device
    size = format_ns(selected.end - selected.start)
    times = f"from {exact_ns(selected.start)} to {exact_ns(selected.end)}"
    gap = gaps.over(device, selected.start, selected.end)
    # Ranges, and what overlaps on a stream, leave blanks while the stream itself is at work.
    is_stream = selected.lane.kind == DEVICE and selected.lane.depth == 0
    if gap is None and not is_stream:
        return [f"nothing recorded for {size}", f"{printable(selected.lane.label)}  {times}"]
    if gap is None:
        return [f"stream idle {size}", f"{times}  {_why_no_gap(analysis, device, selected)}"]
    cause = f"GPU {device} idle {format_ns(gap.duration)}: {gap.cause.value}"
    phase = f", in {printable(gap.phase)}" if gap.phase else ""
    return [cause + phase, times, *_main_thread(analysis, gap, run), *_surroundings(trace, gap)]


def _main_thread(analysis: TraceAnalysis, gap: Gap, run: RunSnapshot | None) -> list[str]:
    rank = run.rank() if run else None
    thread = line_of_gap(run, rank.stacks, analysis, gap) if run and rank else None
    if thread is None:
        return []
    line, looks = thread.lines[0], words.several(thread.looks, "look")
    return [f"main thread at {line.source} for {share(line.held, gap.duration)} of it ({looks})"]


def _why_no_gap(analysis: TraceAnalysis, device: int, selected: Selection) -> str:
    """Why an idle stream is no gap of its device, which only lies between two activities.

    What holds for more than half of the stretch is said.
    """
    active = next((one for one in analysis.activity if one.device == device), None)
    if active is None:
        return f"no activity of GPU {device} was recorded"
    length = selected.end - selected.start
    if 2 * (active.start - selected.start) > length:
        return f"before the first activity of GPU {device}"
    if 2 * (selected.end - active.end) > length:
        return f"after the last activity of GPU {device}"
    listed = [gap.duration for gap in analysis.gaps if gap.device == device]
    if len(listed) >= MOST and length <= min(listed):
        return f"cause not known: only the {MOST:,} longest gaps of GPU {device} are judged"
    return f"other streams of GPU {device} were at work"


def _surroundings(trace: Trace, gap: Gap) -> list[str]:
    facts = [
        f"{label} {_cut(printable(trace.name_of(row)), _LONGEST_NAME)}"
        for label, row in (
            ("meanwhile", gap.operator_row),
            ("after", gap.previous_row),
            ("before", gap.next_row),
            ("launched by", gap.launch_row),
        )
        if row != NONE
    ]
    return ["  ".join(facts)] if facts else []
