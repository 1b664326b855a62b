"""What ranks spend in collectives: with each other's data, and waiting for each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import Intervals, intersect, union
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import Facts, UnknownError, fact, trace_fact
from perftui.facts.step.trace_steps import trace_steps

MOST_RANKS = 64
"""Ranks whose windows are read; each takes a fraction of a second, once."""


@trace_fact
def collective_time(analysis: TraceAnalysis) -> int:
    """Mean time of a steady step in which a collective was under way on the rank, ns: kernels of
    the busiest device, or on the CPU what a library such as Gloo marks. It ends when the last rank
    has come and data is through, so a rank that comes early spends more.

    Raises:
        UnknownError: the trace marks no steps, or no collective is in it.
    """
    steps = trace_steps(analysis)
    if steps is None or not steps.steps:
        raise UnknownError("the trace marks no steps")
    under_way = collectives(analysis)
    if not len(under_way):
        raise UnknownError("no collective is in the trace")
    start = np.array([one.step.start for one in steps.each], dtype=np.int64)
    end = np.array([one.step.end for one in steps.each], dtype=np.int64)
    return intersect(under_way, union(start, end)).total // steps.steps


@trace_fact
def collectives_a_step(analysis: TraceAnalysis) -> float:
    """How many collectives a steady step begins on the host, the mean; 0 where the trace shows the
    calls of none."""
    steps = trace_steps(analysis)
    if steps is None or not steps.steps:
        return 0.0
    calls = kinds.collective_calls(analysis.trace) & steps.inside
    return np.count_nonzero(calls) / steps.steps


def collectives(analysis: TraceAnalysis) -> Intervals:
    """Time in which any collective is under way: on the busiest device, or without one on the
    threads of the library."""
    trace, steps = analysis.trace, trace_steps(analysis)
    if steps is not None and steps.has_gpu:
        rows = kinds.communication(trace) & steps.on_device
    else:
        rows = kinds.host_collectives(trace)
    return union(trace.start[rows], trace.ends_of(rows))


@fact
def collectives_of_ranks(facts: Facts) -> Mapping[int, int]:
    """``collective_time`` of each rank's newest window, by rank.

    Raises:
        UnknownError: fewer than two ranks have windows.
    """
    run = facts.run
    windows = {one.place: one.windows[-1] for one in run.ranks if one.windows} if run else {}
    known = {
        rank: _of_window(path, path.stat().st_mtime_ns)
        for rank, path in sorted(windows.items())[:MOST_RANKS]
        if path.exists()
    }
    found = {rank: time for rank, time in known.items() if time is not None}
    if len(found) < 2:
        raise UnknownError("no windows of several ranks show collectives")
    return found


@lru_cache(maxsize=256)
def _of_window(path: Path, changed_ns: int) -> int | None:
    """``collective_time`` of a window; None where its file cannot be read, or shows none. A run is
    read anew several times a second, its windows are not: ``changed_ns`` distinguishes one that was
    written again."""
    from perftui.analysis.open_trace import open_trace
    from perftui.trace.model import TraceError

    del changed_ns
    try:
        return collective_time(open_trace(path))
    except (TraceError, OSError, UnknownError):
        return None
