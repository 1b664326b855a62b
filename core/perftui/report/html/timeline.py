"""The timeline of one step as SVG: a row for the phases, for each thread, for each stream, and for
idle time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.intervals import Intervals, intersect
from perftui.analysis.kernels.names import shown_name
from perftui.analysis.kinds import track_bounds
from perftui.analysis.model import Gap, Step, TraceAnalysis
from perftui.analysis.steps import OPERATORS, find_phases
from perftui.analysis.timeline.tracks import device_label, track_label
from perftui.facts.step.trace_steps import TraceSteps
from perftui.report.html.element import Element, element
from perftui.report.html.strip import Box, Events, boxes_of, legend, strip
from perftui.report.html.style import COMMUNICATION, COPIES, KERNEL
from perftui.run.columns import phase_name
from perftui.trace.model import MEMCPY, NONE, Int64, Mask, Trace

MOST_THREADS, MOST_STREAMS = 3, 8

KERNELS = "kernels and copies"

HOST, DEVICE, IDLE = "Host", "GPU", "Idle"
"""Groups of rows, by what their colours stand for."""

LEAST_SHARE = 0.001
"""Share of the step that a thread must be at work in to have a row."""

LONGEST_NAME = 120
"""Characters of a name: those of C++ templates have thousands."""


@dataclass(frozen=True)
class StepRows:
    """The rows of one step, or of the whole trace where none are marked."""

    step: Step
    """By the clock of the host, as the trace has it."""
    rows: tuple[Events, ...]
    left_out: int
    """Streams that were at work and have no row."""


def step_rows(steps: TraceSteps) -> StepRows:
    """The rows of the steady step whose length is nearest to the median."""
    analysis = steps.analysis
    step = _typical(steps)
    window = Intervals(np.array([step.start]), np.array([step.end]))
    streams = [each for each in _streams(analysis, window) if len(each.start)]
    busiest = sorted(streams, key=lambda one: -one.covered)[:MOST_STREAMS]
    rows = [
        _phases(analysis.trace, window),
        *_threads(analysis.trace, window),
        *(each for each in streams if each in busiest),
        *_idle(steps, window),
    ]
    return StepRows(
        step, tuple(each for each in rows if len(each.start)), len(streams) - len(busiest)
    )


def _typical(steps: TraceSteps) -> Step:
    usual = steps.breakdown.p50
    nearest = min(steps.each, key=lambda one: abs(one.step.duration - usual)).step
    marked = (one for one in steps.analysis.steps if one.row == nearest.row)
    return next(marked, nearest)


def _phases(trace: Trace, window: Intervals) -> Events:
    found: list[tuple[int, int, str]] = []
    phases = find_phases(trace)
    # Operators alone, without a phase, are what the row of the thread shows.
    for name, times in phases.items() if any(one != OPERATORS for one in phases) else ():
        inside = intersect(times, window)
        found += zip(inside.start.tolist(), inside.end.tolist(), [name] * len(inside), strict=True)
    found.sort()
    start = _column([begin for begin, _, _ in found])
    end = _column([stop for _, stop, _ in found])
    kind = [name for _, _, name in found]
    return Events("phases", start, end, lambda at: (phase_name(kind[at]), kind[at]), "phases", HOST)


def _threads(trace: Trace, window: Intervals) -> Iterator[Events]:
    """The outermost operators and CUDA calls of the busiest threads, the one that trains first."""
    works = (kinds.operators(trace) | kinds.launches(trace)) & kinds.on_cpu(trace)
    main, least = main_track(trace), LEAST_SHARE * window.total
    found = {
        number: _inside(trace, number, works, window, outermost=True)
        for number, track in enumerate(trace.tracks)
        if not track.is_device
    }
    covered = {number: int((end - start).sum()) for number, (_, start, end) in found.items()}
    chosen = [number for number in found if covered[number] > least]
    chosen.sort(key=lambda number: (number != main, -covered[number], number))
    for number in chosen[:MOST_THREADS]:
        yield _named(trace, track_label(trace, number), *found[number], "operators and calls", {})


def _streams(analysis: TraceAnalysis, window: Intervals) -> Iterator[Events]:
    trace = analysis.trace
    works = kinds.device_activity(trace)
    masks = {COMMUNICATION: kinds.communication(trace), COPIES: trace.in_category(MEMCPY)}
    numbers = [number for number, track in enumerate(trace.tracks) if track.is_device]
    numbers.sort(key=lambda one: (trace.tracks[one].device, trace.tracks[one].stream, one))
    for number in numbers:
        found = _inside(trace, number, works, window, outermost=False)
        label = track_label(trace, number)
        yield _named(trace, label, *found, KERNELS, masks)


def _inside(
    trace: Trace, track: int, works: Mask, window: Intervals, *, outermost: bool
) -> tuple[Int64, Int64, Int64]:
    """Rows of a track that are at work in the window, with the start and end of each, cut to it.

    Of overlapping ones the ``outermost`` are left, or each is cut where the one before it ends.
    """
    low, high = track_bounds(trace)[track : track + 2].tolist()
    rows = low + np.flatnonzero(works[low:high] & kinds.believable(trace)[low:high])
    ends = trace.ends_of(rows)
    near = (trace.start[rows] < window.end[0]) & (ends > window.start[0])
    rows, ends = rows[near], ends[near]
    start = np.maximum(trace.start[rows], window.start[0])
    end = np.minimum(ends, window.end[0])
    reach = np.maximum.accumulate(end)
    before = np.concatenate([start[:1], reach[:-1]])
    if outermost:
        kept = start >= before
    else:
        start = np.maximum(start, before)
        kept = end > start
    kept &= end > start
    return rows[kept], start[kept], end[kept]


def _named(
    trace: Trace,
    label: str,
    rows: Int64,
    start: Int64,
    end: Int64,
    noun: str,
    masks: Mapping[str, Mask],
) -> Events:
    def describe(at: int) -> tuple[str, str]:
        row = int(rows[at])
        usual = KERNEL if noun == KERNELS else OPERATORS
        kind = next((name for name, mask in masks.items() if mask[row]), usual)
        return fmt.middle(shown_name(trace, row), LONGEST_NAME), kind

    group = DEVICE if noun == KERNELS else HOST
    return Events(label, start, end, describe, noun, group)


def _idle(steps: TraceSteps, window: Intervals) -> Iterator[Events]:
    """The gaps of the device that is judged, each with its cause."""
    device = steps.device
    if device is None:
        return
    low, high = int(window.start[0]), int(window.end[0])
    gaps = [one for one in steps.analysis.gaps if one.device == device]
    gaps = sorted(
        (one for one in gaps if one.start < high and one.end > low), key=lambda one: one.start
    )
    trace = steps.analysis.trace
    start = np.maximum(_column([one.start for one in gaps]), low)
    end = np.minimum(_column([one.end for one in gaps]), high)
    label = f"{device_label(trace, device)} idle"
    yield Events(label, start, end, lambda at: _cause(trace, gaps[at]), "gaps", IDLE)


def _cause(trace: Trace, gap: Gap) -> tuple[str, str]:
    cause = gap.cause.value
    if gap.operator_row == NONE:
        return cause, cause
    return f"{cause} in {fmt.middle(shown_name(trace, gap.operator_row), LONGEST_NAME)}", cause


def _column(values: list[int]) -> Int64:
    return np.array(values, dtype=np.int64)


PIXELS = 1_100
"""Of the widest page; what is narrower than a third of one is united."""

TICKS = 4


def timeline(steps: TraceSteps) -> Element:
    """The steady step that is nearest to the median, with its threads and streams."""
    found = step_rows(steps)
    step, length = found.step, max(found.step.duration, 1)
    boxes = boxes_of(found.rows, length // (3 * PIXELS))
    tracks = [
        element(
            "div",
            element(
                "div",
                row.label,
                element("span", f" {fmt.percent(row.covered / length)}", class_="dim"),
            ),
            strip(each, step.start, length, f"timeline of {row.label}"),
            class_="track",
        )
        for row, each in zip(found.rows, boxes, strict=True)
    ]
    return element(
        "figure",
        *tracks,
        _axis(length),
        *_legends(found, boxes),
        element("figcaption", " ".join(_caption(steps, found))),
    )


def _legends(found: StepRows, boxes: Sequence[Sequence[Box]]) -> Iterator[Element]:
    """A line for each group of rows."""
    groups: dict[str, dict[str, None]] = {}
    for row, each in zip(found.rows, boxes, strict=True):
        groups.setdefault(row.group, {}).update(dict.fromkeys(box.kind for box in each))
    yield from (legend(tuple(kinds), group) for group, kinds in groups.items())


def _axis(length: int) -> Element:
    times = (length * tick // TICKS for tick in range(TICKS + 1))
    return element(
        "div",
        *(element("span", fmt.duration(time) if time else "0") for time in times),
        class_="axis",
    )


def _caption(steps: TraceSteps, found: StepRows) -> Iterator[str]:
    if steps.steps:
        yield (
            f"Step {found.step.index} of the trace, the one nearest to the median of "
            f"{fmt.several(steps.steps, 'step')}."
        )
    else:
        yield "All of the trace, which marks no steps."
    yield "A percentage is the share of the time that the boxes of a row cover."
    yield "What is too narrow to be seen shares a box with its neighbours."
    if found.left_out:
        yield f"{fmt.several(found.left_out, 'more stream')} with less work had no room."
