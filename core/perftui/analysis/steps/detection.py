"""Training steps, as marked in the trace or derived from its optimizer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.grouping import sums
from perftui.analysis.model import Step
from perftui.analysis.steps.held import are_bogus
from perftui.analysis.steps.unmarked import unmarked_steps
from perftui.trace.model import Int64, Trace


def find_steps(trace: Trace) -> tuple[Step, ...]:
    """``ProfilerStep#N`` on the CPU, in order of time; the marks on the device are copies.

    Where several threads mark steps of one number, those of the thread with most time in steps
    count. A trace that marks none, or whose marks hold next to nothing of it, has those of
    ``unmarked_steps``, numbered from 0.
    """
    marks = kinds.ranges_named(trace, kinds.STEP.match)
    if not marks.any():
        return unmarked_steps(trace)
    rows = np.flatnonzero(marks & kinds.believable(trace))
    rows = rows[_of_one_thread(trace, rows)]
    ordered = rows[np.argsort(trace.start[rows], kind="stable")]
    steps = tuple(_step(trace, row) for row in ordered.tolist())
    return unmarked_steps(trace) if are_bogus(trace, steps) else steps


def step_source(trace: Trace, steps: Sequence[Step]) -> str:
    """What the steps of ``find_steps`` are derived from: the ``optimizer`` or the ``data loader``;
    empty if they are marked, or if there are none."""
    name = trace.name_of(steps[0].row) if steps else ""
    if name.startswith(kinds.OPTIMIZER_STEP):
        return "optimizer"
    return "data loader" if kinds.is_fetch(name) else ""


def _of_one_thread(trace: Trace, rows: Int64) -> kinds.Mask:
    times = sums(trace.track[rows], trace.duration[rows], len(trace.tracks))
    main = trace.track[rows] == np.argmax(times)
    once: kinds.Mask = main | ~np.isin(trace.name[rows], trace.name[rows[main]])
    return once


def _step(trace: Trace, row: int) -> Step:
    match = kinds.STEP.match(trace.name_of(row))
    index = int(match.group(1)) if match else -1
    start = int(trace.start[row])
    return Step(index, start, start + int(trace.duration[row]), row)


_TENTHS = 11
"""Tenths of the median from which a step is slow: those of a healthy training vary by a few
percent."""


def median_duration(steps: Sequence[Step]) -> int:
    """The duration in ns that half of the steps do not exceed, a real step's; 0 without steps."""
    ordered = sorted(step.duration for step in steps)
    return ordered[(len(ordered) - 1) // 2] if ordered else 0


def slow_from(steps: Sequence[Step]) -> int:
    """The duration in ns from which a step is slow: a tenth above the median, rounded up."""
    return -(-_TENTHS * median_duration(steps) // 10)


def slow_steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps that took at least ``slow_from``, in the order given."""
    bound = slow_from(steps)
    return tuple(step for step in steps if step.duration >= bound > 0)
