"""Everything that is known about one gap, as lines of text."""

from __future__ import annotations

from typing import Literal

import numpy as np

from perftui import format as fmt
from perftui.analysis.gpu_idle.gaps import MOST
from perftui.analysis.kernels.names import shown_name
from perftui.analysis.model import Gap, TraceAnalysis
from perftui.analysis.timeline.track import DEVICE, WHOLE
from perftui.analysis.timeline.tracks import device_label
from perftui.facts.fact import Facts
from perftui.facts.gpu.gaps import line_of_gap
from perftui.facts.source.lines import stack_samples
from perftui.run.reader import RunSnapshot
from perftui.trace.model import NONE, PYTHON, Trace
from perftui.trace.text import printable
from perftui_tui.look.format import share
from perftui_tui.look.units import format_ns
from perftui_tui.screens.timeline.detail.lines import Line
from perftui_tui.screens.timeline.detail.times import began
from perftui_tui.screens.timeline.model.event_kinds import phase_label
from perftui_tui.screens.timeline.model.gap_labels import DeviceGaps
from perftui_tui.screens.timeline.model.navigation import Selection

_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")

_MOST_ROWS = 1_000
"""Rows that are searched for a Python call: far more than any stack is deep."""

_LONGEST_NAME = 48
"""Characters of a name among others: C++ names of kernels fill whole lines."""


def gap_lines(
    analysis: TraceAnalysis,
    gaps: DeviceGaps,
    selected: Selection,
    run: RunSnapshot | None = None,
    main_track: int = NONE,
) -> list[Line]:
    """What is known about a gap: how long, why, and what went on meanwhile.

    In a window of ``run`` also where its main thread was, as far as it was sampled, else where
    it was by the Python calls of ``main_track``.
    """
    trace = analysis.trace
    device = trace.tracks[selected.track.track].device
    size = format_ns(selected.end - selected.start)
    times = began(selected.start)
    gap = gaps.over(device, selected.start, selected.end)
    # Ranges, and what overlaps on a stream, leave blanks while the stream itself is at work.
    is_stream = selected.track.kind in (DEVICE, WHOLE) and selected.track.depth == 0
    if gap is None and not is_stream:
        where = printable(selected.track.label)
        return [Line(f"nothing recorded for {size}", "bold"), Line(f"{where}  {times}", facts=True)]
    if gap is None:
        why = _why_no_gap(analysis, device, selected)
        return [Line(f"stream idle {size}", "bold"), Line(f"{times}  {why}", facts=True)]
    cause = f"{device_label(trace, device)} idle {format_ns(gap.duration)}: {gap.cause.value}"
    during = phase_label(printable(gap.phase)) if gap.phase else gap.cause.value
    phase = f", in {during}" if during != gap.cause.value else ""
    return [
        Line(cause + phase, "bold"),
        Line(began(gap.start), facts=True),
        *_main_thread(analysis, gap, run, main_track),
        *_enclosing_ops(trace, gap),
    ]


def _main_thread(
    analysis: TraceAnalysis, gap: Gap, run: RunSnapshot | None, main_track: int
) -> list[Line]:
    thread = line_of_gap(stack_samples(Facts(run)), analysis, gap)
    if thread is not None:
        line, samples = thread.lines[0], fmt.several(thread.samples, "sample")
        held = share(line.held, gap.duration)
        return [Line(f"main thread at {line.source} for {held} of the gap ({samples})", "warn")]
    frame = python_frame(analysis.trace, main_track, gap.start, gap.end)
    return [Line(f"main thread in {printable(frame)}", "warn")] if frame else []


def python_frame(trace: Trace, trace_track: int, start: int, end: int) -> str:
    """The innermost Python call of a thread that is open over more than half of an interval, as the
    profiler names it: ``train.py(48): load``. Empty in traces without stacks.

    What covers more than half of an interval covers its middle: of the rows that began before it
    the last, or one of its callers; behind a range outside the call stack the row before it.
    """
    if PYTHON not in trace.categories or trace_track == NONE:
        return ""
    low, high = (int(np.searchsorted(trace.track, trace_track, side=one)) for one in _SIDES)
    middle = np.int64((start + end) // 2)
    row = low + int(np.searchsorted(trace.start[low:high], middle, side="right")) - 1
    is_python = trace.categories.index(PYTHON)
    for _ in range(_MOST_ROWS):
        if row < low:
            break
        begins, ends = int(trace.start[row]), int(trace.start[row] + trace.duration[row])
        over = 2 * (min(ends, end) - max(begins, start)) > end - start
        if over and trace.category[row] == is_python:
            return trace.name_of(row)
        caller = int(trace.parent[row])
        row = row - 1 if caller == NONE else caller
    return ""


def _why_no_gap(analysis: TraceAnalysis, device: int, selected: Selection) -> str:
    """Why an idle stream is no gap of its device: what holds for more than half of the interval."""
    name = device_label(analysis.trace, device)
    active = next((one for one in analysis.activity if one.device == device), None)
    if active is None:
        return f"no activity of {name} was recorded"
    length = selected.end - selected.start
    if 2 * (active.start - selected.start) > length:
        return f"before the first activity of {name}"
    if 2 * (selected.end - active.end) > length:
        return f"after the last activity of {name}"
    listed = [gap.duration for gap in analysis.gaps if gap.device == device]
    if len(listed) >= MOST and length <= min(listed):
        return f"cause unknown: only the {MOST:,} longest gaps of {name} are analysed"
    return f"other streams of {name} were busy"


def _enclosing_ops(trace: Trace, gap: Gap) -> list[Line]:
    facts = [
        f"{label} {fmt.middle(printable(shown_name(trace, row)), _LONGEST_NAME)}"
        for label, row in (
            ("meanwhile", gap.operator_row),
            ("after", gap.previous_row),
            ("before", gap.next_row),
            ("launched by", gap.launch_row),
        )
        if row != NONE
    ]
    return [Line("  ".join(facts), facts=True)] if facts else []
