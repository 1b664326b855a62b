"""From which line of the user's code each row of a trace with Python frames was called."""

from __future__ import annotations

import re

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.kinds import Mask
from perftui.analysis.ops.call_tree import innermost
from perftui.trace.categories import PYTHON
from perftui.trace.model import NONE, Int32, Int64, Trace

_BACKWARD = re.compile(
    r"torch/_tensor\.py\(\d+\): backward"
    r"|torch/autograd/\w+\.py\(\d+\): (_engine_run_)?(backward|grad)"
    r"|<built-in (method|function) run_backward"
)
"""Frames in which a thread waits for the backward pass that it has begun."""


def calling_frames(trace: Trace, lines: Mask) -> Int32:
    """For each row the innermost of the frames ``lines`` around it, or NONE.

    What autograd runs on a thread of its own was called by the line that began the backward pass,
    which waits for it meanwhile.
    """
    around = innermost(trace, lines)
    begun = _backward_calls(trace, around)
    outside = np.flatnonzero(kinds.operators(trace) & (around == NONE) & _of_engine(trace))
    if not len(begun) or not len(outside):
        return around
    process = _processes(trace)
    for number in np.unique(process[trace.track[outside]]).tolist():
        calls = begun[process[trace.track[begun]] == number]
        rows = outside[process[trace.track[outside]] == number]
        if not len(calls):
            continue
        calls = calls[np.argsort(trace.start[calls], kind="stable")]
        at = np.searchsorted(trace.start[calls], trace.start[rows], side="right") - 1
        within = (at >= 0) & (trace.start[rows] < trace.ends_of(calls)[np.maximum(at, 0)])
        around[rows[within]] = around[calls[at[within]]]
    return around


def _backward_calls(trace: Trace, around: Int32) -> Int64:
    """The outermost frames of calls of the backward pass that a line of the user's made."""
    frames = trace.in_category(PYTHON) & kinds.named(trace, _BACKWARD.match)
    inside = innermost(trace, frames)
    above = np.where(trace.parent == NONE, NONE, inside[trace.parent])
    return np.flatnonzero(frames & (above == NONE) & (around != NONE))


def _of_engine(trace: Trace) -> Mask:
    """Rows of the threads that autograd runs operators on."""
    tracks = np.zeros(len(trace.tracks), dtype=bool)
    tracks[np.unique(trace.track[kinds.of_autograd(trace)])] = True
    rows: Mask = tracks[trace.track]
    return rows


def _processes(trace: Trace) -> Int64:
    """A number for the process of each track, of each rank where several are put together."""
    numbers: dict[tuple[int, str], int] = {}
    found = [numbers.setdefault((one.rank, one.process), len(numbers)) for one in trace.tracks]
    return np.array(found, dtype=np.int64)
