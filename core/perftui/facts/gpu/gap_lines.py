"""Where the training's main thread was while the GPU idled, by line of the user's code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis.model import Gap, GapCause, TraceAnalysis
from perftui.facts.fact import Facts, fact
from perftui.facts.source.lines import LinesByTime, lines_by_time
from perftui.facts.source.main_thread import stack_samples
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
    far as the stack samples tell."""
    if facts.analysis is None:
        return ()
    samples, gaps = stack_samples(facts), facts.analysis.gaps
    found = []
    for cause in dict.fromkeys(gap.cause for gap in gaps):
        chosen = [gap for gap in gaps if gap.cause is cause]
        thread = _within(samples, facts.analysis.trace.wall_origin, chosen)
        if thread.samples >= FEWEST_IN_GAPS:
            found.append(GapLines(cause, sum(gap.duration for gap in chosen), thread))
    return tuple(sorted(found, key=lambda one: -one.idle))


def line_of_gap(samples: Sequence[Table], analysis: TraceAnalysis, gap: Gap) -> LinesByTime | None:
    """Where the main thread was in ``gap``; None where no sample tells."""
    thread = _within(samples, analysis.trace.wall_origin, [gap])
    return thread if thread.samples else None


def _within(samples: Sequence[Table], origin: int | None, gaps: Sequence[Gap]) -> LinesByTime:
    """By the table of ``samples`` that saw most of ``gaps``."""
    if origin is None:
        return LinesByTime((), 0, 0)
    found = (_of_gaps(stacks, origin, gaps) for stacks in samples if len(stacks))
    return max(found, key=lambda one: one.samples, default=LinesByTime((), 0, 0))


def _of_gaps(stacks: Table, origin: int, gaps: Sequence[Gap]) -> LinesByTime:
    """An interval counts for the gap that it begins in, from there on, and for one inside it where
    that is certain."""
    starts: Int64 = stacks["time"] - origin
    stops: Int64 = starts + stacks["held"]
    is_certain = stacks["held"] >= CERTAIN_SAMPLES * stacks["every"]
    held = np.zeros(len(starts), dtype=np.int64)
    begins = np.array([gap.start for gap in gaps], dtype=np.int64)
    ends = np.array([gap.end for gap in gaps], dtype=np.int64)
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
        samples += len(overlap)
    return lines_by_time(stacks, held, samples)
