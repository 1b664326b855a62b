"""The steady steps of a trace, their mean, and whether the trace holds the device's work in them.

Missing work looks like idle time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import capturing
from perftui.analysis.intervals import Intervals, mask_of, union
from perftui.analysis.kinds import begun_in
from perftui.analysis.model import Gap, GapCause, Step, StepParts, TraceAnalysis
from perftui.analysis.ops.calls import is_of_nsys, link
from perftui.analysis.steps import (
    BACKWARD,
    NEXT_TO_NOTHING,
    OPTIMIZER,
    find_phases,
    held_by,
    times_of,
)
from perftui.facts.fact import Facts, UnknownError, trace_fact
from perftui.facts.step.steps import (
    TRAIN,
    StepBreakdown,
    activity,
    step_kind,
    trace_breakdown,
    warm_up_length,
)
from perftui.trace.model import NONE, ON_DEVICE, PYTHON, Int64, Mask, Trace

MOST_ROWS = 100_000
"""Most operators, or kernels, examined one by one. A first poll of a million operators takes 25 ms
with so many, and 70 to 113 ms with all."""


@dataclass(frozen=True, eq=False)
class TraceSteps:
    """The steady steps of a trace, or the whole trace if they are unknown."""

    analysis: TraceAnalysis
    each: tuple[StepParts, ...]
    breakdown: StepBreakdown
    """The mean of ``each``."""

    @property
    def steps(self) -> int:
        """Number of steps; 0 if the steps of the trace are unknown."""
        return self.breakdown.count

    @property
    def step_ns(self) -> int:
        """Mean step, or the length of the trace, ns."""
        return self.breakdown.mean

    def part(self, name: str) -> int:
        """Mean time in the part ``name``, ns; 0 if absent."""
        return self.breakdown.part(name)

    @property
    def has_gpu(self) -> bool:
        """Whether device activity was recorded."""
        return self.analysis.has_gpu

    @cached_property
    def device(self) -> int | None:
        """The busiest device, whose time the parts are; None without one."""
        busiest = max(self.analysis.activity, key=lambda use: use.busy, default=None)
        return busiest.device if busiest else None

    @cached_property
    def on_device(self) -> Mask:
        """Which rows of the trace are of that device, at plausible times."""
        trace = self.analysis.trace
        result: Mask = (kinds.devices(trace) == self.device) & kinds.believable(trace)
        return result

    @cached_property
    def times(self) -> Intervals:
        """The steady steps' time on the device (or the whole trace)."""
        return union(*times_of([part.step for part in self.each]))

    @cached_property
    def inside(self) -> Mask:
        """Which rows of the trace begin in ``times``."""
        return begun_in(self.analysis.trace, self.times)

    def gaps(self, cause: GapCause) -> list[Gap]:
        """Listed gaps of the device with that cause in the steady steps, longest first."""
        device = self.device
        return [
            gap
            for gap in self.analysis.gaps
            if gap.cause is cause and gap.device == device and self.step_at(gap.start)
        ]

    @cached_property
    def marked(self) -> Sequence[Step]:
        """The steady steps on the training thread's clock (or the whole trace)."""
        rows = {part.step.row for part in self.each}
        marked = [step for step in self.analysis.steps if step.row in rows]
        return marked or [part.step for part in self.each]

    @cached_property
    def on_host(self) -> Intervals:
        """The steady steps' time on the training thread (or the whole trace)."""
        return union(*times_of(self.marked))

    def first(self, rows: Mask) -> TraceSteps:
        """The first steps, at least one, with about ``MOST_ROWS`` of ``rows``: enough of a huge
        window. All steps of a smaller one."""
        count = len(self.each)
        if self.steps and count > 1:
            count = max(count * MOST_ROWS // max(int(np.count_nonzero(rows & self.inside)), 1), 1)
        steps = self.each[:count]
        breakdown = trace_breakdown(steps, marked=True) if count < len(self.each) else None
        if breakdown is None:
            return self
        breakdown = replace(breakdown, profiler=self.breakdown.profiler)
        return TraceSteps(self.analysis, steps, breakdown)

    def step_at(self, time: int) -> Step | None:
        """The steady step (or the whole trace) that contains ``time``."""
        steps = (part.step for part in self.each)
        return next((step for step in steps if step.start <= time < step.end), None)


@trace_fact
def trace_steps(analysis: TraceAnalysis) -> TraceSteps | None:
    """The steps that findings refer to; None if the trace has no duration."""
    parts = analysis.step_parts
    marked = bool(analysis.steps)
    if marked:
        parts = _without_end(analysis, parts)
        durations = np.array([part.step.duration for part in parts], dtype=np.int64)
        parts = parts[warm_up_length(durations) if len(parts) > 1 else 0 :]
    breakdown = trace_breakdown(parts, marked=marked)
    if breakdown is None:
        return None
    breakdown = replace(breakdown, profiler=_profiler(analysis.trace))
    return TraceSteps(analysis, parts, breakdown)


def _profiler(trace: Trace) -> str:
    """Who recorded the trace."""
    if is_of_nsys(trace):
        return "nsys"
    is_own = any(name.startswith(kinds.OWN_MARK) for name in trace.names)
    return "perftui" if is_own else "torch.profiler"


@trace_fact
def longest_activity(analysis: TraceAnalysis) -> int:
    """ns of the longest kernel, copy or set of the judged device; 0 without any."""
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None or not steps.has_gpu:
        return 0
    rows = kinds.device_activity(trace) & steps.on_device
    return int(trace.duration[rows].max(initial=0))


def _without_end(analysis: TraceAnalysis, parts: tuple[StepParts, ...]) -> tuple[StepParts, ...]:
    """Steps without a last one that begins as the loop ends: the optimizer steps only before it, or
    it holds next to nothing of what the others hold."""
    trace = analysis.trace
    optimizing = trace.start[kinds.optimizer(trace) | kinds.marked(trace, OPTIMIZER)]
    first, last = parts[0].step, parts[-1].step
    ended = bool(len(optimizing)) and first.start <= optimizing.max() < last.start
    *others, holds = held_by(trace, analysis.steps).tolist()
    is_empty = bool(others) and holds < NEXT_TO_NOTHING * np.median(others)
    return parts[:-1] if ended or is_empty else parts


INCOMPLETE = 0.05
"""Share of missing work from which idle time is not judged."""

FEW = 0.10
"""Share of launches without kernels up to which a busy device's idle time is judged."""

BUSY = 0.5
"""Busy share of the judged time from which a device is busy: far more is there than is missing."""

FEWEST_AHEAD = 1_000_000
"""ns from the first launch to the device's first activity from which it did something unrecorded
first."""

_LAUNCH = re.compile(r"(cuda|hip|cu)\w*(LaunchKernel|Launch\w+Kernel|GraphLaunch)|urEnqueueKernel")


@dataclass(frozen=True)
class Missing:
    """Work of the device that a trace lacks."""

    launches: int
    """Launches of kernels and graphs that should have left something."""
    lost: int
    """Launches without any activity."""
    first: int
    """Lost launches before the first one with activity."""
    ahead: int
    """ns at the beginning in which work is queued on a device that the trace shows idle."""
    ahead_share: float
    """Share of ``ahead`` in the judged time, 0 to 1."""
    busy: float
    """Share of the judged time in which the device is busy, 0 to 1."""

    @property
    def share(self) -> float:
        """Share of launches, or of time, that is missing, 0 to 1."""
        return max(self.lost / max(self.launches, 1), self.ahead_share)

    @property
    def is_little(self) -> bool:
        """Whether so little is missing that idle time can be trusted."""
        few = FEW if self.busy >= BUSY else INCOMPLETE
        return self.ahead_share < INCOMPLETE and self.lost < few * max(self.launches, 1)


@trace_fact
def missing(analysis: TraceAnalysis) -> Missing:
    """The device work that the trace lacks."""
    trace = analysis.trace
    calls = kinds.launches(trace)
    rows = np.flatnonzero(calls & kinds.named(trace, _LAUNCH.match) & (trace.correlation != NONE))
    if len(captured := capturing(trace)):
        # Launches captured by a graph run nothing.
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
        busy = (steps.step_ns - sum(steps.part(cause.value) for cause in GapCause)) / steps.step_ns
    return Missing(len(rows), lost, first, ahead, min(ahead / total, 1.0), busy)


@trace_fact
def complete(analysis: TraceAnalysis) -> TraceAnalysis:
    """The trace, if its idle time can be trusted. Unknown if too much device work is missing."""
    if lacks_end(analysis):
        raise UnknownError(f"{CUT}: kernels stood behind its end")
    lacks = missing(analysis)
    if lacks.is_little:
        return analysis
    lost, all_ = lacks.lost, lacks.launches
    if lost / max(all_, 1) >= INCOMPLETE:
        raise UnknownError(f"{lost} of {all_} kernel launches have no kernel in the trace")
    raise UnknownError("the trace lacks the device's activity at its beginning")


CUT = "the file is cut off"


@trace_fact
def lacks_end(analysis: TraceAnalysis) -> bool:
    """Whether work of a device stands behind the end of a file that is cut off: profilers write
    kernels behind what ran on the CPU, which then goes on where the device seems to end."""
    trace = analysis.trace
    if not trace.is_cut or not analysis.has_gpu:
        return trace.is_cut and drives_device(analysis)
    near = kinds.believable(trace)
    # Of the last call, the end may be known and what it holds not.
    begin, end = int(trace.start[near].min()), int(trace.start[near].max())
    between = (
        gap.duration for gap in analysis.gaps if NONE not in (gap.previous_row, gap.next_row)
    )
    behind = end - max(use.end for use in analysis.activity)
    # It may also idle once more, as it did before.
    return behind >= INCOMPLETE * (end - begin) and behind > 2 * max(between, default=0)


def no_kernels(analysis: TraceAnalysis) -> str:
    """Why a trace has no kernels."""
    if lacks_end(analysis):
        return f"no GPU kernels in what is left of this trace: {CUT}"
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
    """The steady steps of a trace with GPU activity. Unknown without any."""
    steps = trace_steps(analysis)
    if steps is None or not steps.has_gpu:
        raise UnknownError(no_kernels(analysis))
    return steps


def subject(facts: Facts) -> str:
    """Who spends the time: ``The training``, unless nothing shows that it is one."""
    if facts.run is None:
        is_training = facts.analysis is not None and trains(facts.analysis)
        return "The training" if is_training else "The program"
    return "The training" if step_kind(facts) == TRAIN else activity(facts).capitalize()


@trace_fact
def trains(analysis: TraceAnalysis) -> bool:
    """Whether the trace shows a backward pass or an optimizer: an inference, or another program,
    has neither."""
    phases = find_phases(analysis.trace)
    has_none = not any(phases.get(name) for name in (BACKWARD, OPTIMIZER))
    return not has_none or bool(kinds.backward(analysis.trace).any())


@trace_fact
def host_code(analysis: TraceAnalysis) -> str:
    """What the host runs where nothing was recorded: Python, unless nothing shows any."""
    trace = analysis.trace
    shows = trace.in_category(PYTHON).any() or kinds.of_pytorch(trace).any()
    named = any("python" in track.process_name for track in trace.tracks)
    return "Python" if shows or named or analysis.steps else "code that was not recorded"


@trace_fact
def drives_device(analysis: TraceAnalysis) -> bool:
    """Whether the trace shows a device at work, even if its kernels are missing or renamed; of a
    file that is cut off, whether it lists one."""
    trace = analysis.trace
    is_listed = trace.is_cut and bool(trace.metadata.get("deviceProperties"))
    is_there = is_listed or bool(trace.in_category(*ON_DEVICE).any())
    return is_there or missing(analysis).launches > 0 or bool(unrecorded_gpu(analysis))


@trace_fact
def unrecorded_gpu(analysis: TraceAnalysis) -> str:
    """An operator that only runs on a GPU, in a trace without any launch or device activity; empty
    if there is none."""
    trace = analysis.trace
    if trace.in_category(*ON_DEVICE).any() or missing(analysis).launches:
        return ""
    rows = np.flatnonzero(kinds.only_on_gpu(trace))
    return trace.name_of(int(rows[0])) if len(rows) else ""


def _has_run(trace: Trace, rows: Int64) -> Mask:
    """Which launches have activity on the device with the id of their call."""
    links = link(trace)
    result: Mask = mask_of(len(trace) + 1, links.launch)[rows]
    # Calls may share an id, such as one of the runtime and one of the driver: links hold the first.
    others = np.flatnonzero(~result)
    if len(others):
        ids = np.sort(trace.correlation[rows[others]])
        ran = trace.correlation[links.activity]
        at = np.minimum(np.searchsorted(ids, ran), len(ids) - 1)
        result[others] = np.isin(trace.correlation[rows[others]], ids[at[ids[at] == ran]])
    return result
