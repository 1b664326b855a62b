"""Where the main thread was during one part of the judged step, by line of the user's code."""

from __future__ import annotations

from collections import Counter

import numpy as np

from perftui.analysis.gpu_idle.host import main_track
from perftui.analysis.intervals import EMPTY, Intervals
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.analysis.ops import frames
from perftui.analysis.steps.parts import EXPOSED_COMMUNICATION
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.gpu.gap_lines import gap_lines
from perftui.facts.gpu.host_waits import gaps_of
from perftui.facts.place import Place
from perftui.facts.source.lines import MOST_LINES, LinesByTime, LineShare, lines_by_time
from perftui.facts.source.main_thread import stack_samples, steady_held
from perftui.facts.source.own_samples import is_of_collectives
from perftui.facts.step.judged_step import PYTHON_IN, STAGES, judged_step
from perftui.facts.step.steady import Mask
from perftui.facts.step.trace_steps import trace_steps
from perftui.run.stack_samples import BACKWARD
from perftui.run.table import Table
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


def part_lines(facts: Facts, part: str) -> LinesByTime | None:
    """The lines of that part of ``judged_step``, longest first; None where neither a sample nor
    the trace's own stacks tell."""
    judged = judged_step.or_none(facts)
    if judged is None:
        return None
    if judged.on_device and part in set(GapCause):
        of_cause = (one.thread for one in gap_lines(facts) if one.cause.value == part)
        found = next(of_cause, None)
        if found is None and facts.analysis is not None and part == GapCause.PYTHON.value:
            return python_gap_lines(facts.analysis)
        return found
    outside, inside = stack_samples(facts)
    stacks, held = (outside, steady_held(facts)) if len(outside) else (inside, None)
    if "stage" not in stacks:
        return None
    held = stacks["held"] if held is None else held
    if part == EXPOSED_COMMUNICATION:
        called = lines_by_time(stacks, np.where(_in_collectives(stacks), held, 0))
        if called.suffices:
            return called
    known = [stage for each in STAGES.values() for stage in each]
    # Gradients are reduced within backward.
    reducing = (BACKWARD,) if part == EXPOSED_COMMUNICATION else None
    stages = reducing or STAGES.get(part.removeprefix(PYTHON_IN))
    chosen = np.isin(stacks["stage"], stages) if stages else ~np.isin(stacks["stage"], known)
    found = lines_by_time(stacks, np.where(chosen, held, 0))
    return found if found.suffices else None


def _in_collectives(stacks: Table) -> Mask:
    """Samples outside of phases in calls of ``torch.distributed``."""
    frames = zip(stacks["inner"].tolist(), stacks["via"].tolist(), strict=True)
    called = [any(map(is_of_collectives, each)) for each in frames]
    return np.array(called, dtype=bool) & np.isin(stacks["stage"], ("",))


def place_in_part(facts: Facts, part: str) -> Place:
    """The line of the user's code at which most of that part is spent; without file and line where
    it is not known."""
    thread = part_lines(facts, part)
    line = thread.first_own if thread else None
    if line is None:
        return Place(rank=facts.rank_number)
    return facts.at(line)
