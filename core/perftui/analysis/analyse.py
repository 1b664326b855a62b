"""All tables of one trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import Host, Idle, explain_idle
from perftui.analysis.gpu_idle.gaps import EnclosingOps, list_gaps, not_listed
from perftui.analysis.intervals import Intervals
from perftui.analysis.links import link, shared_correlations
from perftui.analysis.model import (
    DeviceActivity,
    Gap,
    IdleTime,
    Step,
    TraceAnalysis,
    device_activities,
    kernel_table,
)
from perftui.analysis.ops.call_detail import module_table
from perftui.analysis.ops.calls import op_table
from perftui.analysis.steps import (
    FORWARD,
    OPERATORS,
    device_parts,
    find_phases,
    find_steps,
    on_device_clock,
    step_parts,
    step_source,
)
from perftui.trace.model import NONE, NOT_READ, Trace


def analyse(trace: Trace) -> TraceAnalysis:
    """Every table of the trace, and notes on what it cannot show: what was not read comes first."""
    links, host = link(trace), Host(trace)
    activity = device_activities(trace, links)
    phases = find_phases(trace)
    steps = find_steps(trace)
    # It stands for the steps of a trace that marks none.
    near = kinds.believable(trace)
    whole = Step(-1, int(trace.start[near].min()), int(trace.ends_of(near).max()), row=NONE)
    of = np.where(near[links.activity], kinds.devices(trace)[links.activity], NONE)
    idle = {
        each.device: explain_idle(trace, links, of == each.device, host, whole.start, whole.end)
        for each in activity
    }
    parts: Mapping[str, Intervals] = phases
    timed = steps
    if activity:
        mine = of == _busiest(activity).device
        parts = device_parts(trace, links.activity[mine], idle[_busiest(activity).device])
        timed = on_device_clock(trace, links, mine, steps)
    return TraceAnalysis(
        trace=trace,
        activity=activity,
        ops=op_table(trace, links),
        modules=module_table(trace, links),
        kernels=kernel_table(trace, links),
        gaps=_gaps(EnclosingOps(trace, host), phases, idle),
        idle=tuple(
            IdleTime(device, cause, part.total)
            for device, each in idle.items()
            for cause, part in each.causes.items()
            if len(part)
        ),
        steps=steps,
        step_parts=step_parts(timed or (whole,), parts),
        notes=tuple(_notes(trace, host, phases, activity, steps, whole, idle)),
    )


def without_tables(trace: Trace) -> TraceAnalysis:
    """What can be drawn of a trace before it is analysed: its events and its steps."""
    return TraceAnalysis(trace, find_steps(trace))


def _gaps(
    enclosing: EnclosingOps, phases: Mapping[str, Intervals], idle: Mapping[int, Idle]
) -> tuple[Gap, ...]:
    """Gaps of all devices, longest first."""
    named = {name: part for name, part in phases.items() if name != OPERATORS}
    found = [
        gap for device, each in idle.items() for gap in list_gaps(device, each, enclosing, named)
    ]
    return tuple(sorted(found, key=lambda gap: (-gap.duration, gap.start)))


def _busiest(activity: Iterable[DeviceActivity]) -> DeviceActivity:
    return max(activity, key=lambda each: each.busy)


def _notes(
    trace: Trace,
    host: Host,
    phases: Mapping[str, Intervals],
    activity: tuple[DeviceActivity, ...],
    steps: tuple[Step, ...],
    whole: Step,
    idle: Mapping[int, Idle],
) -> Iterable[str]:
    yield from (warning.message for warning in trace.warnings)
    if not activity:
        yield "no GPU activity recorded"
    apart = int(np.count_nonzero(~kinds.believable(trace)))
    if apart:
        events = fmt.several(apart, "event")
        yield f"{events} with times hours away from all others: left out of steps and idle time"
    yield from _of_steps(trace, steps, whole)
    if len(activity) > 1:
        yield (
            f"{len(activity)} devices: the step breakdown is that of device "
            f"{_busiest(activity).device}, the busiest"
        )
    unread = trace.metadata.get(NOT_READ)
    if isinstance(unread, Mapping):
        tables = ", ".join(f"{table} ({rows})" for table, rows in unread.items())
        yield f"not read: the rows of {tables}"
    unlinked = sum(each.unlinked for each in activity)
    if unlinked:
        yield f"{unlinked} GPU events whose launch is not in the trace"
    shared = shared_correlations(trace) if activity else 0
    if shared:
        yield (
            f"correlation ids shared by calls of several processes: {shared}; what launched their "
            "GPU events is uncertain"
        )
    if activity and not len(host.span):
        yield "no CPU activity recorded: idle time cannot be explained"
    yield from dict.fromkeys(note for each in idle.values() if (note := not_listed(each)))
    if FORWARD not in phases and not activity:
        yield "forward passes are not marked: their operators count as operators"


def _of_steps(trace: Trace, steps: tuple[Step, ...], whole: Step) -> Iterable[str]:
    if not steps:
        yield "no steps marked: the step breakdown covers the whole trace"
    elif by := step_source(trace, steps):
        left_out = fmt.duration(whole.duration - (steps[-1].end - steps[0].start))
        yield f"no steps marked: derived from the {by}; {left_out} around them is left out"
