"""The timeline of one step: phases, threads, streams and gaps as boxes on a line of time, in the
colours of ``style.css``. Colour never stands alone: what is coloured also carries a word."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.intervals import Intervals, intersect, union
from perftui.analysis.kernels.names import shown_name
from perftui.analysis.kinds import track_bounds
from perftui.analysis.model import Gap, GapCause, Step, TraceAnalysis
from perftui.analysis.steps import (
    COMPUTE,
    EXPOSED_COMMUNICATION,
    EXPOSED_COPIES,
    OPERATORS,
    find_phases,
)
from perftui.analysis.timeline.tracks import device_label, track_label
from perftui.facts.step.trace_steps import TraceSteps
from perftui.run.columns import phase_name
from perftui.trace.model import MEMCPY, NONE, Int64, Mask, Trace

KERNEL, COMMUNICATION, COPIES = "kernels", "communication", "copies"
"""Kinds of work that are drawn of a stream."""

HUES = {
    # On light so dark that white text on it reaches a contrast of 4.5, on dark the same hue so
    # light that near-black text does: Okabe and Ito's where the parts are seen side by side.
    "orange": ("#8a5a00", "#e69f00"),
    "olive": ("#5c5600", "#f0e442"),
    "blue": ("#0063a0", "#56b4e9"),
    "green": ("#00674a", "#2fb98f"),
    "pink": ("#94396d", "#cc79a7"),
    "violet": ("#5b3fb0", "#b9a7f0"),
    "grey": ("#555c63", "#a6adb4"),
    "red": ("#b03a00", "#ff7f50"),
    "teal": ("#00606b", "#5fc9d4"),
    "brown": ("#7a4a2e", "#d8ae8c"),
    "moss": ("#4d6400", "#b7cc4a"),
    "slate": ("#47566b", "#8fa3bd"),
}

_OF_PART = {
    "input_wait": "orange",
    "loader_start": "olive",
    "forward": "blue",
    "backward": "green",
    "optimizer": "pink",
    "profiler": "violet",
    "operators": "teal",
    KERNEL: "blue",
    COMMUNICATION: "pink",
    COPIES: "teal",
    COMPUTE: "blue",
    EXPOSED_COMMUNICATION: "pink",
    EXPOSED_COPIES: "teal",
    GapCause.INPUT_WAIT.value: "orange",
    GapCause.SYNCHRONISATION.value: "red",
    GapCause.LAUNCH.value: "olive",
    GapCause.PYTHON.value: "green",
    GapCause.CPU_OPERATORS.value: "moss",
    GapCause.ALLOCATION.value: "brown",
    GapCause.COMPILATION.value: "violet",
    GapCause.INITIALISATION.value: "violet",
    GapCause.QUEUED.value: "slate",
}


def hue(part: str) -> str:
    """The class of what shows a part of a step, or an idle cause, by its name."""
    return f"c-{_OF_PART.get(part, 'grey')}"


MOST_BOXES = 1_500
"""Boxes of a whole timeline: some 150 KB of SVG."""

GROWTH = 1.5
"""Factor by which the least width grows until there are few enough boxes."""


@dataclass(frozen=True)
class Box:
    """One event, or several that are too narrow to be told apart; times in ns."""

    start: int
    end: int
    text: str
    """Description for a person."""
    kind: str
    """What it counts as: a part of the step, or the cause of a gap."""
    name: str = ""
    """The name of the one event in it; empty of several."""

    @property
    def duration(self) -> int:
        """From the first start to the last end."""
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Events:
    """Events of one row, in order of time and without overlaps; times in ns."""

    label: str
    start: Int64
    end: Int64
    describe: Callable[[int], tuple[str, str]]
    """Name and kind of the event of that number."""
    noun: str
    """Plural of what they are: ``kernels``."""
    group: str = ""
    """Rows of one group share what their colours stand for."""

    @property
    def covered(self) -> int:
        """Time that any of them covers."""
        return union(self.start, self.end).total


def boxes_of(rows: Sequence[Events], least: int, most: int = MOST_BOXES) -> list[tuple[Box, ...]]:
    """The boxes of each row.

    Events shorter than ``least`` ns with less than that between them share a box; where more than
    ``most`` boxes would be left, longer ones do too. No event is left out."""
    least = max(least, 1)
    while sum(int(_begins(row, least).sum()) for row in rows) > most:
        least = int(least * GROWTH) + 1
    return [_boxes(row, least) for row in rows]


def _begins(row: Events, least: int) -> npt.NDArray[np.bool_]:
    """Which events begin a box."""
    begins = np.ones(len(row.start), dtype=np.bool_)
    wide = row.end - row.start >= least
    apart = row.start[1:] - row.end[:-1] >= least
    begins[1:] = wide[1:] | wide[:-1] | apart
    return begins


def _boxes(row: Events, least: int) -> tuple[Box, ...]:
    first = np.flatnonzero(_begins(row, least)).tolist()
    return tuple(
        _box(row, low, high) for low, high in zip(first, [*first[1:], len(row.start)], strict=True)
    )


def _box(row: Events, low: int, high: int) -> Box:
    durations = row.end[low:high] - row.start[low:high]
    longest = low + int(durations.argmax())
    name, kind = row.describe(longest)
    text, start, end = f"{name}, {fmt.duration(int(durations.max()))}", row.start[low], row.end
    if high - low == 1:
        return Box(int(start), int(end[low]), text, kind, name)
    whole = fmt.duration(int(durations.sum()))
    several = f"{high - low:,} {row.noun}, {whole} in all; the longest is {text}"
    return Box(int(start), int(end[high - 1]), several, kind)


def part_boxes(parts: tuple[tuple[str, int], ...], profiler: str = "perftui") -> tuple[Box, ...]:
    """The parts side by side from 0 on; parts without time are left out."""
    boxes, at = [], 0
    for name, time in parts:
        if time:
            shown = profiler if name == "profiler" else phase_name(name)
            boxes.append(Box(at, at + time, f"{shown}, {fmt.duration(time)}", name, shown))
        at += time
    return tuple(boxes)


MOST_THREADS, MOST_STREAMS = 3, 8

KERNELS = "kernels and copies"

HOST, DEVICE, IDLE = "Host", "GPU", "Idle"
"""Groups of rows, by what their colours stand for."""

LEAST_SHARE = 0.001
"""Share of the step that a thread must be at work in to have a row."""

LONGEST_NAME = 120
"""Characters of a name: those of C++ templates have thousands."""


def _typical(steps: TraceSteps) -> Step:
    usual = steps.breakdown.p50
    nearest = min(steps.each, key=lambda row: abs(row.step.duration - usual)).step
    marked = (step for step in steps.analysis.steps if step.row == nearest.row)
    return next(marked, nearest)


def _phases(trace: Trace, window: Intervals) -> Events:
    spans: list[tuple[int, int, str]] = []
    phases = find_phases(trace)
    # Operators alone, without a phase, are shown by the row of the thread.
    for name, times in phases.items() if any(phase != OPERATORS for phase in phases) else ():
        inside = intersect(times, window)
        spans += zip(inside.start.tolist(), inside.end.tolist(), [name] * len(inside), strict=True)
    spans.sort()
    start = _column([begin for begin, _, _ in spans])
    end = _column([stop for _, stop, _ in spans])
    kind = [name for _, _, name in spans]
    return Events("phases", start, end, lambda at: (phase_name(kind[at]), kind[at]), "phases", HOST)


def _threads(trace: Trace, window: Intervals) -> Iterator[Events]:
    """The outermost operators and CUDA calls of the busiest threads, the one that trains first."""
    works = (kinds.operators(trace) | kinds.launches(trace)) & kinds.on_cpu(trace)
    main, least = main_track(trace), LEAST_SHARE * window.total
    events = {
        number: _inside(trace, number, works, window, outermost=True)
        for number, track in enumerate(trace.tracks)
        if not track.is_device
    }
    covered = {number: int((end - start).sum()) for number, (_, start, end) in events.items()}
    chosen = [number for number in events if covered[number] > least]
    chosen.sort(key=lambda number: (number != main, -covered[number], number))
    for number in chosen[:MOST_THREADS]:
        yield _events(trace, track_label(trace, number), *events[number], "operators and calls", {})


def _streams(analysis: TraceAnalysis, window: Intervals) -> Iterator[Events]:
    trace = analysis.trace
    works = kinds.device_activity(trace)
    masks = {COMMUNICATION: kinds.communication(trace), COPIES: trace.in_category(MEMCPY)}
    numbers = [number for number, track in enumerate(trace.tracks) if track.is_device]
    numbers.sort(key=lambda at: (trace.tracks[at].device, trace.tracks[at].stream, at))
    for number in numbers:
        events = _inside(trace, number, works, window, outermost=False)
        yield _events(trace, track_label(trace, number), *events, KERNELS, masks)


def _inside(
    trace: Trace, track: int, works: Mask, window: Intervals, *, outermost: bool
) -> tuple[Int64, Int64, Int64]:
    """Events of a track in the window: rows, starts and ends, cut to the window.

    Of overlapping events only the ``outermost`` stay, or each begins where the last one ends."""
    low, high = track_bounds(trace)[track : track + 2].tolist()
    rows = low + np.flatnonzero(works[low:high] & kinds.believable(trace)[low:high])
    ends = trace.ends_of(rows)
    near = (trace.start[rows] < window.end[0]) & (ends > window.start[0])
    rows, ends = rows[near], ends[near]
    start = np.maximum(trace.start[rows], window.start[0])
    end = np.minimum(ends, window.end[0])
    before = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    if outermost:
        keep = start >= before
    else:
        start = np.maximum(start, before)
        keep = end > start
    keep &= end > start
    return rows[keep], start[keep], end[keep]


def _events(
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
    gaps = [gap for gap in steps.analysis.gaps if gap.device == device]
    gaps = [gap for gap in gaps if gap.start < high and gap.end > low]
    gaps.sort(key=lambda gap: gap.start)
    trace = steps.analysis.trace
    start = np.maximum(_column([gap.start for gap in gaps]), low)
    end = np.minimum(_column([gap.end for gap in gaps]), high)
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
"""Pixels of the widest page; boxes narrower than a third of one are merged."""


@dataclass(frozen=True)
class Timeline:
    """The steady step that is nearest to the median, with its threads and streams, as drawn."""

    step: Step
    """By the clock of the host, as the trace has it; the whole trace where none is marked."""
    drawn: tuple[tuple[Events, tuple[Box, ...]], ...]
    """Each row and its boxes."""
    caption: tuple[str, ...]
    is_of_step: bool
    """Else it is of the whole trace, which marks no steps."""

    @property
    def legends(self) -> dict[str, dict[str, None]]:
        """The kinds that are drawn in each group of rows."""
        groups: dict[str, dict[str, None]] = {}
        for row, boxes in self.drawn:
            groups.setdefault(row.group, {}).update(dict.fromkeys(box.kind for box in boxes))
        return groups


def timeline(steps: TraceSteps) -> Timeline:
    """The timeline of a trace."""
    analysis, step = steps.analysis, _typical(steps)
    window = Intervals(np.array([step.start]), np.array([step.end]))
    streams = [row for row in _streams(analysis, window) if len(row.start)]
    busiest = sorted(streams, key=lambda row: -row.covered)[:MOST_STREAMS]
    every = (
        _phases(analysis.trace, window),
        *_threads(analysis.trace, window),
        *(row for row in streams if row in busiest),
        *_idle(steps, window),
    )
    rows = [row for row in every if len(row.start)]
    boxes = boxes_of(rows, max(step.duration, 1) // (3 * PIXELS))
    caption = tuple(_caption(steps, step, len(streams) - len(busiest)))
    return Timeline(step, tuple(zip(rows, boxes, strict=True)), caption, bool(steps.steps))


def _caption(steps: TraceSteps, step: Step, left_out: int) -> Iterator[str]:
    if steps.steps:
        yield (
            f"Step {step.index} of the trace, the one nearest to the median of "
            f"{fmt.several(steps.steps, 'step')}."
        )
    else:
        yield "All of the trace, which marks no steps."
    yield "A percentage is the share of the time that the boxes of a row cover."
    yield "What is too narrow to be seen shares a box with its neighbours."
    if left_out:
        yield f"{fmt.several(left_out, 'more stream')} with less work had no room."
