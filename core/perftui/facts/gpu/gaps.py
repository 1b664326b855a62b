"""Gaps of the GPU: when by cause, what the host did, and at which line of the user's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import Intervals, union
from perftui.analysis.model import Gap, GapCause, TraceAnalysis
from perftui.analysis.ops import call_groups
from perftui.facts.fact import Facts, fact, trace_fact
from perftui.facts.place import Place
from perftui.facts.source.lines import LinesByTime, lines_by_time, stack_samples
from perftui.facts.step.steady import Mask
from perftui.facts.step.trace_steps import TraceSteps
from perftui.run.table import Table
from perftui.trace.model import CPU_OP, NONE, PYTHON, Int64, Trace


@dataclass(frozen=True, eq=False)
class GapTimes:
    """Gaps that one cause explains for the most part, one element each, longest first."""

    device: Int64
    start: Int64
    end: Int64

    @property
    def total(self) -> int:
        """Their time in ns, of all devices together."""
        return int((self.end - self.start).sum())

    def of(self, device: int | None) -> Intervals:
        """When that device idled so."""
        mine = self.device == device
        return union(self.start[mine], self.end[mine])


@trace_fact
def gap_times(analysis: TraceAnalysis) -> Mapping[GapCause, GapTimes]:
    """The gaps of each cause that has any."""
    groups: dict[GapCause, list[tuple[int, int, int]]] = {}
    for gap in analysis.gaps:
        groups.setdefault(gap.cause, []).append((gap.device, gap.start, gap.end))
    return {cause: GapTimes(*np.array(each, np.int64).T) for cause, each in groups.items()}


@trace_fact
def recorded(analysis: TraceAnalysis) -> tuple[int, int]:
    """When the first event of the trace begins, and the last ends, ns; zeros without events."""
    trace = analysis.trace
    first = int(trace.start.min(initial=0))
    return first, int(trace.ends_of(slice(None)).max(initial=first))


def place_of(gap: Gap, steps: TraceSteps) -> Place:
    """Where a gap is: its times, what caused it (the wait that came before, else what ran on the
    launching thread) and the line of user code."""
    trace, within = steps.analysis.trace, steps.step_at(gap.start)
    step = within.index if within and steps.steps else None
    rows = [gap.wait_row, gap.operator_row, gap.launch_row]
    if gap.wait_row == NONE and _launches_over(trace, gap):
        rows = [gap.launch_row]
    row = next((row for row in rows if row != NONE), NONE)
    operator = trace.name_of(row) if row != NONE else None
    file, line = source_line(trace, row)
    return Place(None, step, gap.start, gap.end, row if row != NONE else None, operator, file, line)


def _launches_over(trace: Trace, gap: Gap) -> bool:
    """Whether the launch takes most of a gap, in no operator."""
    if gap.launch_row == NONE or int(trace.parent[gap.launch_row]) != gap.operator_row:
        return False
    if trace.categories[int(trace.category[gap.operator_row])] == CPU_OP:
        return False
    start = max(int(trace.start[gap.launch_row]), gap.start)
    end = int(trace.start[gap.launch_row] + trace.duration[gap.launch_row])
    return 2 * (min(end, gap.end) - start) > gap.duration


def source_line(trace: Trace, row: int) -> tuple[str | None, int | None]:
    """Innermost frame of user code above ``row``, in a trace recorded with stacks."""
    while row != NONE:
        if trace.categories[int(trace.category[row])] == PYTHON:
            found = call_groups.source_line(trace.name_of(row))
            if found is not None:
                return found.file, found.line
        row = int(trace.parent[row])
    return None, None


def most_common(names: Iterable[str | None]) -> str | None:
    """The name that occurs most; None where all are unknown."""
    counts = Counter(name for name in names if name)
    return counts.most_common(1)[0][0] if counts else None


FEWEST_IN_GAPS = 5
"""A single sample in a gap is one moment of one gap."""

CERTAIN_SAMPLES = 3
"""An interval as long as so many mean intervals goes without a sample inside it once in 20 times
(``exp(-3)``), and every one found the same: it names a gap that it holds."""


@dataclass(frozen=True)
class GapLines:
    """Where the main thread was while the GPU idled for one cause."""

    cause: GapCause
    idle: int
    """Time in ns of all those gaps."""
    thread: LinesByTime


@fact
def gap_lines(facts: Facts) -> tuple[GapLines, ...]:
    """Where the main thread was while the GPU idled in the window, by cause, most idle first, as
    far as the stack samples show."""
    if facts.analysis is None:
        return ()
    samples = stack_samples(facts)
    found = []
    for cause, gaps in gap_times(facts.analysis).items():
        thread = _sampled_within(samples, facts.analysis, gaps.start, gaps.end)
        if thread.samples >= FEWEST_IN_GAPS:
            found.append(GapLines(cause, gaps.total, thread))
    return tuple(sorted(found, key=lambda one: -one.idle))


def line_of_gap(samples: Sequence[Table], analysis: TraceAnalysis, gap: Gap) -> LinesByTime | None:
    """Where the main thread was in ``gap``; None if no sample shows it."""
    thread = _sampled_within(samples, analysis, np.array([gap.start]), np.array([gap.end]))
    return thread if thread.samples else None


def certain(stacks: Table, analysis: TraceAnalysis, origin: int) -> Mask:
    """Intervals so long, within the time of the trace, that another sample would have fallen
    between. Before and after it the training waits for the profiler, at one line both times, and
    what was computed in between may have met no sample."""
    starts: Int64 = stacks["time"] - origin
    first, last = recorded(analysis)
    seen = np.minimum(starts + stacks["held"], last) - np.maximum(starts, first)
    return np.asarray(seen >= CERTAIN_SAMPLES * stacks["every"])


def _sampled_within(
    samples: Sequence[Table], analysis: TraceAnalysis, begins: Int64, ends: Int64
) -> LinesByTime:
    """By the table of ``samples`` that saw most of the gaps."""
    found = (_of_gaps(stacks, analysis, begins, ends) for stacks in samples if len(stacks))
    return max(found, key=lambda one: one.samples, default=LinesByTime((), 0, 0))


def _of_gaps(stacks: Table, analysis: TraceAnalysis, begins: Int64, ends: Int64) -> LinesByTime:
    """An interval counts for the gap that it begins in, from there on, and for one inside it where
    that is certain."""
    origin = analysis.trace.wall_origin
    if origin is None:
        return LinesByTime((), 0, 0)
    starts: Int64 = stacks["time"] - origin
    stops: Int64 = starts + stacks["held"]
    every: Int64 = np.maximum(stacks["every"], 1)
    is_certain = certain(stacks, analysis, origin)
    held = np.zeros(len(starts), dtype=np.int64)
    samples = 0
    # Windows are short: a few intervals meet thousands of gaps.
    meets = (stops > begins.min(initial=0)) & (starts < ends.max(initial=0))
    for row in np.flatnonzero(meets).tolist():
        start, end = int(starts[row]), int(stops[row])
        known = (begins <= start) & (start < ends)
        if is_certain[row]:
            known |= (begins >= start) & (ends <= end)
        overlap = np.minimum(ends[known], end) - np.maximum(begins[known], start)
        held[row] = overlap.sum()
        samples += max(int(np.any(known)), int(held[row] // every[row]))
    return lines_by_time(stacks, held, samples)
