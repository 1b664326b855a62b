"""The steady steps of a trace, their mean, and whether the trace holds what the device did in them.

What is missing looks like idle time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import capturing
from perftui.analysis.gpu_idle.gaps import MOST
from perftui.analysis.intervals import Intervals, union
from perftui.analysis.kinds import begun_in
from perftui.analysis.model import Gap, GapCause, Step, StepParts, TraceAnalysis
from perftui.analysis.ops.calls import link
from perftui.analysis.steps import NEXT_TO_NOTHING, OPTIMIZER, held_by
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.step.steps import StepBreakdown, trace_breakdown, warm_up_length
from perftui.trace.model import NONE, ON_DEVICE, Int64, Mask, Trace

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
        result: Mask = (kinds.devices(trace) == self.device) & kinds.believable(trace)
        return result

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
    *others, holds = held_by(trace, analysis.steps).tolist()
    is_empty = bool(others) and holds < NEXT_TO_NOTHING * np.median(others)
    return each[:-1] if ended or is_empty else each


def _covered(steps: Sequence[Step]) -> Intervals:
    start = np.array([step.start for step in steps], dtype=np.int64)
    end = np.array([step.end for step in steps], dtype=np.int64)
    return union(start, end)


INCOMPLETE = 0.05
"""Share of missing work from which on idle time is not judged."""

FEW = 0.10
"""Share of launches without kernels up to which idle time of a device that works is judged."""

BUSY = 0.5
"""Share of the judged time from which on a device works: far more is there than is missing."""

FEWEST_AHEAD = 1_000_000
"""ns from which on a device that begins so long after the first launch did something else first,
which the trace does not hold."""

_LAUNCH = re.compile(r"(cuda|hip|cu)\w*(LaunchKernel|Launch\w+Kernel|GraphLaunch)|urEnqueueKernel")


@dataclass(frozen=True)
class Missing:
    """Work of the device that a trace lacks."""

    launches: int
    """Launches of kernels and graphs that should have left something."""
    lost: int
    """Launches of which nothing ran."""
    first: int
    """Lost launches before the first kernel of any launch."""
    ahead: int
    """ns at the beginning in which work was queued on a device that the trace shows idle."""
    ahead_share: float
    """Share of ``ahead`` in the judged time, 0 to 1."""
    busy: float
    """Share of the judged time in which the device is busy all the same, 0 to 1."""

    @property
    def share(self) -> float:
        """How much is missing, 0 to 1: of the launches, or of the time."""
        return max(self.lost / max(self.launches, 1), self.ahead_share)

    @property
    def is_little(self) -> bool:
        """Whether idle time is to be believed."""
        few = FEW if self.busy >= BUSY else INCOMPLETE
        return self.ahead_share < INCOMPLETE and self.lost < few * max(self.launches, 1)

    @property
    def only_ahead(self) -> bool:
        """Whether the beginning is all that is missing: what follows is to be believed."""
        return self.lost < INCOMPLETE * max(self.launches, 1) and self.ahead > 0


@trace_fact
def missing(analysis: TraceAnalysis) -> Missing:
    """What the trace lacks."""
    trace = analysis.trace
    calls = kinds.launches(trace)
    rows = np.flatnonzero(calls & kinds.named(trace, _LAUNCH.match) & (trace.correlation != NONE))
    if len(captured := capturing(trace)):
        # What a graph captures runs nothing.
        rows = rows[~captured.holds(trace.start[rows])]
    has_run = _has_run(trace, rows)
    start = trace.start[rows]
    first = int(np.count_nonzero(start < start[has_run].min())) if has_run.any() else len(rows)
    ahead, steps = 0, trace_steps(analysis)
    for gap in analysis.gaps:
        at_begin = gap.previous_row == NONE and gap.cause is GapCause.QUEUED
        if at_begin and gap.duration >= FEWEST_AHEAD and steps and steps.step_at(gap.end - 1):
            ahead = max(ahead, gap.duration)
    total = max(steps.step_ns * max(steps.steps, 1), 1) if steps else 1
    lost, busy = int(np.count_nonzero(~has_run)), 0.0
    if steps is not None and steps.has_gpu:
        idle = sum(steps.part(cause.value) for cause in GapCause)
        busy = (steps.step_ns - idle) / steps.step_ns
    return Missing(len(rows), lost, first, ahead, min(ahead / total, 1.0), busy)


@trace_fact
def complete(analysis: TraceAnalysis) -> TraceAnalysis:
    """The trace, where its idle time is to be believed. Unknown if too much of the device's work is
    missing."""
    found = missing(analysis)
    if found.is_little:
        return analysis
    lost, all_ = found.lost, found.launches
    if lost / max(all_, 1) >= INCOMPLETE:
        raise UnknownError(f"{lost} of {all_} kernel launches have no kernel in the trace")
    raise UnknownError("the trace lacks the device's activity at its beginning")


def no_kernels(analysis: TraceAnalysis) -> str:
    """Why a trace without kernels has none."""
    launched = missing(analysis).launches
    if launched:
        return f"no GPU kernels in this trace, though it has {launched} launches of them"
    if operator := unrecorded_gpu(analysis):
        return f"no GPU kernels in this trace, though {operator} runs on a GPU: it was not recorded"
    if drives_device(analysis) or kinds.launches(analysis.trace).any():
        return "no GPU kernels in this trace, though it has calls or events of a device"
    return "no GPU kernels in this trace: recorded with CPU activity only"


@trace_fact
def gpu_steps(analysis: TraceAnalysis) -> TraceSteps:
    """The steady steps of a trace that shows what a GPU did. Unknown if it does not."""
    steps = trace_steps(analysis)
    if steps is None or not steps.has_gpu:
        raise UnknownError(no_kernels(analysis))
    return steps


@trace_fact
def drives_device(analysis: TraceAnalysis) -> bool:
    """Whether a device works in the trace, be it that its kernels are missing or called else."""
    events = analysis.trace.in_category(*ON_DEVICE)
    return bool(events.any()) or missing(analysis).launches > 0 or bool(unrecorded_gpu(analysis))


@trace_fact
def unrecorded_gpu(analysis: TraceAnalysis) -> str:
    """An operator that runs on a GPU only, of a trace that holds nothing else of one: neither a
    launch nor anything that it did; empty where there is none."""
    trace = analysis.trace
    if trace.in_category(*ON_DEVICE).any() or missing(analysis).launches:
        return ""
    rows = np.flatnonzero(kinds.only_on_gpu(trace))
    return trace.name_of(int(rows[0])) if len(rows) else ""


def _has_run(trace: Trace, rows: Int64) -> Mask:
    """Which launches left something on the device: each has the id of its call."""
    links = link(trace)
    linked = np.zeros(len(trace) + 1, dtype=bool)
    linked[links.launch] = True
    found: Mask = linked[rows]
    # Calls may share an id, as one of the runtime and one of the driver: links hold the first.
    others = np.flatnonzero(~found)
    if len(others):
        ids = np.sort(trace.correlation[rows[others]])
        ran = trace.correlation[links.activity]
        at = np.minimum(np.searchsorted(ids, ran), len(ids) - 1)
        found[others] = np.isin(trace.correlation[rows[others]], ids[at[ids[at] == ran]])
    return found
