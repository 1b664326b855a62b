"""Idle time on the timeline: labels on a track, the largest of each column, details of one."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.gpu_idle.gaps import MOST
from perftui.analysis.kernels.names import shown_name
from perftui.analysis.model import Gap, TraceAnalysis
from perftui.analysis.timeline.track import DEVICE, THREAD, WHOLE, TimelineTrack
from perftui.analysis.timeline.tracks import device_label
from perftui.facts.fact import Facts
from perftui.facts.gpu.idle import line_of_gap
from perftui.facts.source.lines import stack_samples
from perftui.run.reader import RunSnapshot
from perftui.trace.model import NONE, PYTHON, Int64, Trace
from perftui.trace.text import printable
from perftui_tui.charts.cells import ASCII_LEVELS, LOWER_EIGHTHS
from perftui_tui.look.format import format_ns, share
from perftui_tui.reading.snapshot import SHORT_NAMES
from perftui_tui.screens.timeline.detail_pane import Line
from perftui_tui.screens.timeline.navigation import Selection, Viewport
from perftui_tui.screens.timeline.track_cells import Cell, narrow, phase_label, put

THRESHOLDS = (1_000, 10_000, 50_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
"""Nanoseconds from which idle time counts as a gap; the person moves along these."""


def idle_around(track: TimelineTrack, time: int, view: Viewport) -> tuple[int, int]:
    """Start and end of the gap of ``track`` around ``time``; ``view`` has those of the trace."""
    index = track.index
    after = int(np.searchsorted(index.start, np.int64(time), side="right"))
    start = int(index.end[after - 1]) if after else view.first
    return start, int(index.start[after]) if after < len(index) else view.last


class DeviceGaps:
    """The gaps of each device by time. Those of one device do not overlap."""

    def __init__(self, gaps: Sequence[Gap]) -> None:
        self._gaps: dict[int, list[Gap]] = {}
        for gap in sorted(gaps, key=lambda gap: gap.start):
            self._gaps.setdefault(gap.device, []).append(gap)

    def over(self, device: int, start: int, end: int) -> Gap | None:
        """The gap of ``device`` over more than half of ``start`` to ``end``, None without one.

        One stream may wait while others of the device work: that is no idle device."""
        gaps = self._gaps.get(device, [])
        # What covers more than half of an interval covers its middle.
        place = bisect_right(gaps, (start + end) // 2, key=lambda gap: gap.start) - 1
        if place < 0:
            return None
        gap = gaps[place]
        overlap = min(gap.end, end) - max(gap.start, start)
        return gap if 2 * overlap > end - start else None


def draw_gaps(
    cells: list[Cell],
    trace: Trace,
    track: TimelineTrack,
    view: Viewport,
    gaps: DeviceGaps,
    threshold: int,
) -> None:
    """Write each gap of at least ``threshold`` into the blank cells that it leaves on a track."""
    device = trace.tracks[track.track].device
    for blanks in re.finditer(" {3,}", "".join(glyph for glyph, _ in cells)):
        first, behind = blanks.span()
        start, end = idle_around(track, view.time((first + behind - 1) // 2, len(cells)), view)
        if end - start < threshold:
            continue
        width, gap = behind - first, gaps.over(device, start, end)
        row = gap.operator_row if gap else NONE
        inside = "" if row == NONE else narrow(printable(trace.name_of(row)))
        what = "no call" if is_nested(track) else "idle"
        label = gap_label(what, end - start, gap.cause.value if gap else "", width, inside)
        put(cells, first, bracketed(label, width, start < view.start, end > view.end), "gap")


def is_nested(track: TimelineTrack) -> bool:
    """Whether a gap on the track only means that no call is as deep: its thread may be busy."""
    return track.kind == THREAD and track.depth > 0


def gap_label(what: str, length: int, cause: str, width: int, inside: str) -> str:
    """The longest label in ``width`` cells with its brackets; ``inside`` is the host's operator."""
    size = f"{what} {format_ns(length)}"
    causes = (cause, *SHORT_NAMES.get(cause, ())) if cause else ()
    candidates = [f" {size} {cause} in {inside} "] if cause and inside else []
    candidates += [*(f" {size} {word} " for word in causes), f" {size} ", f" {format_ns(length)} "]
    return next((label for label in candidates if len(label) + 2 <= width), "")


def bracketed(label: str, width: int, open_left: bool, open_right: bool) -> str:
    """``label`` between lines to both ends; an open end goes on outside."""
    return ("─" if open_left else "├") + label.center(width - 2, "─") + ("─" if open_right else "┤")


def largest_gap_row(largest: Int64, threshold: int, ascii_only: bool) -> str:
    """The largest gap of each column, from ``threshold`` two steps a decade."""
    ramp = ASCII_LEVELS if ascii_only else LOWER_EIGHTHS
    levels = [
        1 + int(2 * math.log10(gap / threshold)) if gap >= threshold else 0
        for gap in largest.tolist()
    ]
    return "".join(ramp[min(level, len(ramp) - 1)] for level in levels)


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

    In a window of ``run`` also where its main thread was, as far as it was sampled, else where it
    was by the Python calls of ``main_track``."""
    trace = analysis.trace
    device = trace.tracks[selected.track.track].device
    size = format_ns(selected.end - selected.start)
    times = f"at {format_ns(selected.start)}"
    gap = gaps.over(device, selected.start, selected.end)
    # Ranges, and what overlaps on a stream, leave blanks while the stream itself is at work.
    is_stream = selected.track.kind in (DEVICE, WHOLE) and selected.track.depth == 0
    if gap is None and not is_stream:
        where, why, inside = printable(selected.track.label), "", ""
        if is_nested(selected.track):
            inside = call_over(trace, selected.track.track, selected.start, selected.end)
        waits = kinds.busy(trace, kinds.input_wait(trace) & (trace.track == selected.track.track))
        start, end = np.array([selected.start]), np.array([selected.end])
        if 2 * waits.within(start, end)[0] > selected.end - selected.start:
            why = ", while the thread waits for the data loader"
        what = f"no call at this depth for {size}" if inside else f"nothing recorded for {size}"
        name = fmt.middle(phase_label(printable(inside)), _LONGEST_NAME)
        place = f"{where}  {times}" + (f"  inside {name}" if inside else "")
        return [Line(what + why, "bold"), Line(place, facts=True)]
    if gap is None:
        why = _why_no_gap(analysis, device, selected)
        return [Line(f"stream idle {size}", "bold"), Line(f"{times}  {why}", facts=True)]
    cause = f"{device_label(trace, device)} idle {format_ns(gap.duration)}: {gap.cause.value}"
    during = phase_label(printable(gap.phase)) if gap.phase else gap.cause.value
    phase = f", in {during}" if during != gap.cause.value else ""
    return [
        Line(cause + phase, "bold"),
        Line(f"at {format_ns(gap.start)}", facts=True),
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
    frame = call_over(analysis.trace, main_track, gap.start, gap.end, PYTHON)
    return [Line(f"main thread in {printable(frame)}", "warn")] if frame else []


def call_over(trace: Trace, trace_track: int, start: int, end: int, category: str = "") -> str:
    """The innermost call of a thread, of ``category`` if given, that is open over more than half of
    an interval, as the profiler names it: ``train.py(48): load``. Empty where there is none.

    What covers more than half of an interval covers its middle: of the rows that began before it
    the last, or one of its callers; behind a range outside the call stack the row before it."""
    if trace_track == NONE or (category and category not in trace.categories):
        return ""
    low = int(np.searchsorted(trace.track, trace_track))
    high = int(np.searchsorted(trace.track, trace_track, side="right"))
    middle = np.int64((start + end) // 2)
    row = low + int(np.searchsorted(trace.start[low:high], middle, side="right")) - 1
    wanted = trace.categories.index(category) if category else NONE
    for _ in range(_MOST_ROWS):
        if row < low:
            break
        begins, ends = int(trace.start[row]), int(trace.start[row] + trace.duration[row])
        over = 2 * (min(ends, end) - max(begins, start)) > end - start
        if over and wanted in (NONE, trace.category[row]):
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
