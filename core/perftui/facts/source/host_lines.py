"""At which line of the user's code the host was during chosen intervals of a trace."""

from __future__ import annotations

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.intervals import Intervals, union
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.gpu.gaps import certain, source_line
from perftui.facts.place import Place
from perftui.facts.source.lines import LineShare, lines_by_time, stack_samples
from perftui.facts.step.steps import steady_rows
from perftui.run.columns import COLLATE, FETCH
from perftui.run.table import Table
from perftui.trace.model import Int64, Mask, Trace

FEWEST_FOLDED = 3
"""Samples of other steps that fall where the intervals are in theirs; fewer name no line."""


def place_of_rows(
    facts: Facts,
    rows: Int64,
    operator: str | None = None,
    during: Intervals | None = None,
) -> Place:
    """Where ``rows`` of the host's threads were called from: by the stacks of the trace, else by
    samples within them (or ``during``), else by samples at the same places of other steps.

    The line stays unknown where no sample shows it; the place is then known by ``operator``.
    """
    if facts.analysis is None or not len(rows):
        return Place(rank=facts.rank_number, operator=operator)
    trace = facts.analysis.trace
    longest = int(rows[np.argmax(trace.duration[rows])])
    file, line = source_line(trace, longest)
    if file is None:
        during = during or union(trace.start[rows], trace.ends_of(rows))
        found = line_during(facts, during)
        file, line = (found.file, found.line) if found else (None, None)
    start = int(trace.start[longest])
    return Place(
        rank=facts.rank_number,
        start=start,
        end=start + int(trace.duration[longest]),
        trace_row=longest,
        operator=operator or trace.name_of(longest),
        file=file,
        line=line,
    )


def line_during(facts: Facts, during: Intervals) -> LineShare | None:
    """The line that the main thread was at most of ``during``, in ns since the trace's start."""
    if facts.analysis is None or not len(during):
        return None
    trace = facts.analysis.trace
    outside, inside = stack_samples(facts)
    if trace.wall_origin is not None:
        for stacks in (inside, outside):
            if len(stacks):
                found = _most(stacks, _held(facts.analysis, trace.wall_origin, stacks, during))
                if found is not None:
                    return found
    return _folded(facts, trace, outside, during)


def _held(analysis: TraceAnalysis, origin: int, stacks: Table, during: Intervals) -> Int64:
    """The part of ``during`` that each sample stands for: its first moment, and where it is so long
    that no other sample can have fallen between, all of it."""
    start = stacks["time"] - origin
    moment = np.where(during.holds(start), stacks["every"], 0)
    is_certain = certain(stacks, analysis, origin)
    held: Int64 = np.where(is_certain, during.within(start, start + stacks["held"]), moment)
    return held


def _folded(facts: Facts, trace: Trace, stacks: Table, during: Intervals) -> LineShare | None:
    """By samples of unprofiled steps, each at its moment's share of its own step. A call into
    torch's own code from the user's line has no frame of Python inside it: such samples come first.
    """
    steps, marks = steady_rows(facts), _step_marks(facts)
    if not len(stacks) or not len(steps) or not len(marks):
        return None
    row, time = _moments(stacks)
    at = np.maximum(np.searchsorted(steps["start"], time, side="right") - 1, 0)
    since, length = time - steps["start"][at], np.maximum(steps["duration"][at], 1)
    known = (since >= 0) & (since < length)
    if "stage" in stacks:
        known &= ~np.isin(stacks["stage"], (FETCH, COLLATE))[row]
    begin, lasting = int(trace.start[marks[-1]]), int(trace.duration[marks[-1]])
    known &= during.holds(begin + (since / length * lasting).astype(np.int64))
    for chosen in (known & _is_direct(stacks)[row], known):
        if np.count_nonzero(chosen) >= FEWEST_FOLDED:
            return _most(stacks, np.bincount(row[chosen], minlength=len(stacks)).astype(np.int64))
    return None


def _moments(stacks: Table) -> tuple[Int64, Int64]:
    """Rows of ``stacks``, and moments at which they were found: as many as the time asks for."""
    every = np.maximum(stacks["every"], 1)
    count = np.maximum(stacks["held"] // every, 1)
    row = np.repeat(np.arange(len(stacks)), count)
    number = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return row, stacks["time"][row] + number * every[row]


@trace_fact
def _step_marks(analysis: TraceAnalysis) -> Int64:
    """Rows of the steps as the training thread passes them."""
    trace = analysis.trace
    marks = np.flatnonzero(kinds.ranges_named(trace, kinds.STEP.match))
    found: Int64 = marks[trace.track[marks] == main_track(trace)].astype(np.int64)
    return found


def _is_direct(stacks: Table) -> Mask:
    """Samples whose innermost frame is the user's own line."""
    columns = (stacks[name].tolist() for name in ("file", "line", "inner"))
    found = [
        f"{file.rpartition('/')[2]}:{line}" == inner.rpartition("/")[2].split(" ")[0]
        for file, line, inner in zip(*columns, strict=True)
    ]
    return np.array(found, dtype=bool)


def _most(stacks: Table, held: Int64) -> LineShare | None:
    lines = lines_by_time(stacks, held).lines
    return next((line for line in lines if line.file), None)
