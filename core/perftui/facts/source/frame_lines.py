"""Where the training thread was while the GPU idled for Python, by a trace's own stacks."""

from __future__ import annotations

from collections import Counter

import numpy as np

from perftui.analysis.gpu_idle.host import main_track
from perftui.analysis.intervals import EMPTY, Intervals
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.analysis.ops import frames
from perftui.facts.fact import trace_fact
from perftui.facts.gpu.host_waits import gaps_of
from perftui.facts.source.lines import MOST_LINES, LinesByTime, LineShare
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.categories import PYTHON
from perftui.trace.model import NONE, Int64, Trace
from perftui.trace.text import printable

MOMENTS = 250
"""Looked at, evenly spread over the idle time: shares are right to a few percent."""


@trace_fact
def python_gap_lines(analysis: TraceAnalysis) -> LinesByTime | None:
    """By line of the user's code, the idle time of the judged device whose cause is Python; None
    where the trace has no Python frames, or no such time."""
    steps, trace = trace_steps(analysis), analysis.trace
    gaps = gaps_of(steps, (GapCause.PYTHON,)) if steps is not None else EMPTY
    rows = np.flatnonzero(trace.in_category(PYTHON) & (trace.track == main_track(trace)))
    if steps is None or not gaps.total or not len(rows):
        return None
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    moments, every = _moments(gaps)
    moments = moments[steps.times.holds(moments)]
    begun = rows[np.maximum(np.searchsorted(trace.start[rows], moments, side="right") - 1, 0)]
    at = [_line_at(trace, *one) for one in zip(begun.tolist(), moments.tolist(), strict=True)]
    inner = {line: name for line, name in reversed(at) if line}
    found = Counter(line for line, _ in at if line).most_common(MOST_LINES)
    lines = tuple(
        LineShare(
            printable(line.file),
            line.line,
            printable(line.function),
            printable(inner[line]),
            times * every,
        )
        for line, times in found
    )
    return LinesByTime(lines, len(moments) * every, len(moments)) if lines else None


def _moments(gaps: Intervals) -> tuple[Int64, int]:
    """Moments spread over the intervals, and the time that each stands for."""
    ends = np.cumsum(gaps.end - gaps.start)
    every = max(int(ends[-1]) // MOMENTS, 1)
    passed = np.arange(every // 2, ends[-1], every, dtype=np.int64)
    index = np.searchsorted(ends, passed, side="right")
    return gaps.end[index] - ends[index] + passed, every


def _line_at(trace: Trace, row: int, moment: int) -> tuple[frames.SourceLine | None, str]:
    """The innermost line of the user's code that is being run at ``moment``, and the innermost
    frame; ``row`` is the last frame to begin before it."""
    inner = ""
    while row != NONE:
        is_frame = trace.categories[int(trace.category[row])] == PYTHON
        if is_frame and trace.start[row] <= moment < trace.start[row] + trace.duration[row]:
            name = trace.name_of(row)
            inner = inner or name
            line = frames.source_line(name)
            if line is not None:
                return line, inner
        row = int(trace.parent[row])
    return None, inner
