"""Where the training's main thread was while the GPU idled, by line of the user's code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis.model import Gap, GapCause, TraceAnalysis
from perftui.facts.fact import Facts, fact
from perftui.facts.gpu.gap_times import gap_times, recorded
from perftui.facts.source.lines import LinesByTime, lines_by_time, stack_samples
from perftui.facts.step.steady import Mask
from perftui.run.table import Table
from perftui.trace.model import Int64

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
        thread = _within(samples, facts.analysis, gaps.start, gaps.end)
        if thread.samples >= FEWEST_IN_GAPS:
            found.append(GapLines(cause, gaps.total, thread))
    return tuple(sorted(found, key=lambda one: -one.idle))


def line_of_gap(samples: Sequence[Table], analysis: TraceAnalysis, gap: Gap) -> LinesByTime | None:
    """Where the main thread was in ``gap``; None if no sample shows it."""
    thread = _within(samples, analysis, np.array([gap.start]), np.array([gap.end]))
    return thread if thread.samples else None


def certain(stacks: Table, analysis: TraceAnalysis, origin: int) -> Mask:
    """Intervals so long, within the time of the trace, that another sample would have fallen
    between. Before and after it the training waits for the profiler, at one line both times, and
    what was computed in between may have met no sample."""
    starts: Int64 = stacks["time"] - origin
    first, last = recorded(analysis)
    seen = np.minimum(starts + stacks["held"], last) - np.maximum(starts, first)
    return np.asarray(seen >= CERTAIN_SAMPLES * stacks["every"])


def _within(
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
