"""Idle time of the GPU: the steps that show it, by cause, at which line, and in the judged step."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from perftui.analysis.gpu_idle.gaps import MOST
from perftui.analysis.model import Gap, GapCause
from perftui.facts.cpu.machine import has_gpu
from perftui.facts.fact import Facts, NotApplicableError, Place, UnknownError, fact
from perftui.facts.gpu.gaps import gap_lines, gap_place
from perftui.facts.source.lines import LineShare, main_thread
from perftui.facts.source.operator_lines import part_lines
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.steps import StepBreakdown
from perftui.facts.step.trace_steps import TraceSteps, complete, no_kernels, trace_steps


@fact
def device_steps(facts: Facts) -> TraceSteps:
    """Steps of a trace that shows what the GPU did. Not applicable if the training has no GPU.
    Unknown if no trace shows it."""
    trace = trace_steps.or_none(facts)
    if trace and trace.has_gpu:
        return trace
    if has_gpu(facts) is False:
        raise NotApplicableError
    if trace is None:
        raise UnknownError("no window has been profiled")
    raise UnknownError(no_kernels(trace.analysis))


@fact
def idle_steps(facts: Facts) -> TraceSteps:
    """``device_steps`` of a trace whose idle time is to be believed. Not applicable if the training
    has no GPU. Unknown if no trace shows it, or too little of it."""
    found = device_steps(facts)
    complete(found.analysis)
    return found


@dataclass(frozen=True)
class IdleOfCause:
    """Idle time of one device that one cause explains."""

    device: int
    cause: GapCause
    total: int
    """ns in all gaps, each nanosecond by its own cause: over causes they sum to all idle time."""
    count: int
    """Listed gaps that it is the largest part of; 0 where it is only a lesser part of others."""
    longest: Gap | None
    """The longest of those; None without one."""
    line: LineShare | None = None
    """The line at which the main thread was for most of that cause's gaps; None where no samples
    tell."""


@fact
def idle_by_cause(facts: Facts) -> tuple[IdleOfCause, ...]:
    """Idle time of every device of the trace by cause, most time first; empty without idle time.
    Of a device with more than ``MOST`` gaps the longest are counted; all are summed up."""
    if facts.analysis is None:
        return ()
    groups: dict[tuple[int, GapCause], list[Gap]] = {}
    for gap in facts.analysis.gaps:
        groups.setdefault((gap.device, gap.cause), []).append(gap)
    lines = {one.cause: one.thread.lines for one in gap_lines(facts)}
    found = []
    for one in facts.analysis.idle:
        line = next((line for line in lines.get(one.cause, ()) if line.file), None)
        # Gaps are listed longest first.
        some = groups.get((one.device, one.cause), [])
        longest = next(iter(some), None)
        found.append(IdleOfCause(one.device, one.cause, one.total, len(some), longest, line))
    return tuple(sorted(found, key=lambda one: (-one.total, one.device, one.cause.value)))


def counts_all(facts: Facts) -> bool:
    """Whether every gap is counted, rather than the longest ``MOST`` of a device."""
    gaps = facts.analysis.gaps if facts.analysis else ()
    return len(gaps) < MOST


LEAST_NAMED = 0.25
"""Share of the idle time that a line or an operator must have to be named."""

LOOKED_AT = 300
"""Longest gaps whose places are looked up."""

MOSTLY = 0.5
"""Share of the step from which on the samples of all steps stand for this idle time."""


def idle_place(facts: Facts, cause: GapCause, steps: TraceSteps) -> Place | None:
    """The line with most of the idle time, by samples of the main thread, else by the trace's
    stacks; else the operator. None where nothing shows it, or none has much of it."""
    judged = judged_step(facts)
    threads = [part_lines(facts, cause.value), main_thread(facts)]
    if judged.part(cause.value) >= MOSTLY * judged.of.mean:
        # A window is short: a single sample may stand for all of it.
        threads.reverse()
    for thread in threads:
        line = thread.standing_out(LEAST_NAMED) if thread else None
        if line is not None:
            return facts.at(line)
    gaps = steps.gaps(cause)[:LOOKED_AT]
    places = [gap_place(gap, steps) for gap in gaps]
    least = LEAST_NAMED * sum(gap.duration for gap in gaps)
    for names in ([place.source for place in places], [place.operator for place in places]):
        times: Counter[str | None] = Counter()
        for name, gap in zip(names, gaps, strict=True):
            times[name] += gap.duration if name else 0
        for name, time in times.most_common(1):
            if name and time >= least:
                return places[names.index(name)]
    return None


_IDLE = tuple(cause.value for cause in GapCause)


@fact
def idle_scale(facts: Facts) -> float:
    """What a ns of idle time in the trace is in the judged step: the profiler slows the host, and
    with that prolongs what the device idles. Unknown if there is no trace or no step."""
    judged, steps = judged_step(facts), trace_steps(facts)
    recorded = sum(steps.part(name) for name in _IDLE) if steps else 0
    idle = sum(judged.part(name) for name in _IDLE)
    return min(idle / recorded, 1.0) if recorded else 1.0


@fact
def window_step(facts: Facts) -> StepBreakdown:
    """The judged step, resting on as many steps as the trace shows: so many stand behind what is
    read from it. Unknown if there is no trace or no step."""
    judged, steps = judged_step(facts), trace_steps(facts)
    return replace(judged.of, count=steps.steps if steps else 0, of_run=False)


def per_step(facts: Facts, idle_ns: int) -> int:
    """Idle time of all steady steps of the trace, as that of one judged step, ns."""
    steps = trace_steps(facts)
    return round(idle_ns / max(steps.steps if steps else 1, 1) * idle_scale(facts))
