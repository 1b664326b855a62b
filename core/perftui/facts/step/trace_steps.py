"""The steady steps of a trace, and their mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.gaps import MOST
from perftui.analysis.intervals import Intervals, union
from perftui.analysis.kinds import begun_in
from perftui.analysis.model import Gap, GapCause, Step, StepParts, TraceAnalysis
from perftui.analysis.steps import NEXT_TO_NOTHING, OPTIMIZER, held_by
from perftui.facts.fact import trace_fact
from perftui.facts.step.steady import Mask, warm_up_length
from perftui.facts.step.step_breakdown import StepBreakdown, trace_breakdown
from perftui.trace.model import Trace

MOST_ROWS = 100_000
"""Operators, or kernels, that are looked at one by one. A first poll of a million operators takes
25 ms with so many, and 70 to 113 ms with all."""


@dataclass(frozen=True, eq=False)
class TraceSteps:
    """The steady steps of a trace, or the whole trace if they are not known."""

    analysis: TraceAnalysis
    each: tuple[StepParts, ...]
    breakdown: StepBreakdown
    """The mean of them."""

    @property
    def steps(self) -> int:
        """How many there are; 0 if the steps of the trace are not known."""
        return self.breakdown.count

    @property
    def step_ns(self) -> int:
        """Mean step, or the length of the trace."""
        return self.breakdown.mean

    def part(self, name: str) -> int:
        """Mean time in the part ``name``, ns; 0 where there is no such part."""
        return self.breakdown.part(name)

    @property
    def has_gpu(self) -> bool:
        """Whether device activity was recorded."""
        return self.analysis.has_gpu

    @cached_property
    def device(self) -> int | None:
        """The device whose time the parts are, the busiest; None without one."""
        busiest = max(self.analysis.activity, key=lambda each: each.busy, default=None)
        return busiest.device if busiest else None

    @cached_property
    def on_device(self) -> Mask:
        """Which rows of the trace are of that device, at times that can be true."""
        trace = self.analysis.trace
        mine: Mask = (kinds.devices(trace) == self.device) & kinds.believable(trace)
        return mine

    @cached_property
    def times(self) -> Intervals:
        """When the device was in the steady steps (or in the whole trace)."""
        return _covered([one.step for one in self.each])

    @cached_property
    def inside(self) -> Mask:
        """Which rows of the trace begin in ``times``."""
        return begun_in(self.analysis.trace, self.times)

    @property
    def lists_all_gaps(self) -> bool:
        """Whether every gap of the device is listed, rather than the longest ``MOST``."""
        device = self.device
        return sum(gap.device == device for gap in self.analysis.gaps) < MOST

    def gaps(self, cause: GapCause) -> list[Gap]:
        """Listed idle intervals of the device, of that cause, inside the steady steps, longest
        first."""
        device = self.device
        return [
            gap
            for gap in self.analysis.gaps
            if gap.cause is cause and gap.device == device and self.step_at(gap.start)
        ]

    @cached_property
    def on_host(self) -> Intervals:
        """When the training thread was in the steady steps (or in the whole trace)."""
        rows = {one.step.row for one in self.each}
        marked = [step for step in self.analysis.steps if step.row in rows]
        return _covered(marked or [one.step for one in self.each])

    def first(self, rows: Mask) -> TraceSteps:
        """The first steps that hold about ``MOST_ROWS`` of ``rows``, one at least: all but of a
        window so large that a part of it shows the same."""
        kept = len(self.each)
        if self.steps and kept > 1:
            kept = max(kept * MOST_ROWS // max(int(np.count_nonzero(rows & self.inside)), 1), 1)
        each = self.each[:kept]
        breakdown = trace_breakdown(each, marked=True) if kept < len(self.each) else None
        return TraceSteps(self.analysis, each, breakdown) if breakdown else self

    def step_at(self, time: int) -> Step | None:
        """The steady step (or the whole trace) that ``time`` falls in."""
        steps = (one.step for one in self.each)
        return next((step for step in steps if step.start <= time < step.end), None)


@trace_fact
def trace_steps(analysis: TraceAnalysis) -> TraceSteps | None:
    """The steps that findings speak of; None where the trace has no duration at all."""
    each = analysis.step_parts
    marked = bool(analysis.steps)
    if marked:
        each = _without_end(analysis, each)
        durations = np.array([one.step.duration for one in each], dtype=np.int64)
        each = each[warm_up_length(durations) if len(each) > 1 else 0 :]
    breakdown = trace_breakdown(each, marked=marked)
    return TraceSteps(analysis, each, breakdown) if breakdown else None


@trace_fact
def longest_activity(analysis: TraceAnalysis) -> int:
    """ns of the longest single kernel, copy or set of the judged device; 0 without any."""
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None or not steps.has_gpu:
        return 0
    rows = kinds.device_activity(trace) & steps.on_device
    return int(trace.duration[rows].max(initial=0))


def _without_end(analysis: TraceAnalysis, each: tuple[StepParts, ...]) -> tuple[StepParts, ...]:
    """Without a last step that begins as the loop ends: the optimizer steps before it, and no
    more, or it holds next to nothing of what the others do."""
    trace = analysis.trace
    optimizing = trace.start[kinds.optimizer(trace) | kinds.marked(trace, OPTIMIZER)]
    first, last = each[0].step, each[-1].step
    ended = bool(len(optimizing)) and first.start <= optimizing.max() < last.start
    return each[:-1] if ended or _ends_empty(trace, analysis.steps) else each


def _ends_empty(trace: Trace, steps: Sequence[Step]) -> bool:
    *others, last = held_by(trace, steps).tolist()
    return bool(others) and last < NEXT_TO_NOTHING * np.median(others)


def _covered(steps: Sequence[Step]) -> Intervals:
    start = np.array([step.start for step in steps], dtype=np.int64)
    end = np.array([step.end for step in steps], dtype=np.int64)
    return union(start, end)
