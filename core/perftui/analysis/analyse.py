"""All tables of one trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import Host, Idle, explain_idle
from perftui.analysis.gpu_idle.gaps import EnclosingOps, list_gaps, not_listed
from perftui.analysis.intervals import Intervals, first_longest, sums
from perftui.analysis.model import DeviceActivity, IdleTime, KernelTable, Step, TraceAnalysis
from perftui.analysis.ops.call_detail import module_table
from perftui.analysis.ops.calls import Links, link, op_calls, shared_correlations
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
from perftui.trace.model import KERNEL, MEMCPY, MEMSET, NONE, NOT_READ, Int64, Trace


def analyse(trace: Trace) -> TraceAnalysis:
    """Every table of the trace, and notes on what it cannot show; what was not read comes first."""
    links, host = link(trace), Host(trace)
    activity = device_activities(trace, links)
    phases = find_phases(trace)
    steps = find_steps(trace)
    # The whole trace stands in for steps if none is marked.
    near = kinds.believable(trace)
    whole = Step(-1, int(trace.start[near].min()), int(trace.ends_of(near).max()), row=NONE)
    of = np.where(near[links.activity], kinds.devices(trace)[links.activity], NONE)
    # Behind the last step the profiler stops, which is no loss of the training.
    last = max((step.end for step in steps), default=whole.end)
    idle = {
        use.device: explain_idle(trace, links, of == use.device, host, whole.start,
                                 max(last, use.end))
        for use in activity
    }  # fmt: skip
    parts: Mapping[str, Intervals] = phases
    timed = steps
    busiest = max(activity, key=lambda use: use.busy).device if activity else NONE
    if activity:
        mine = of == busiest
        parts = device_parts(trace, links.activity[mine], idle[busiest])
        timed = on_device_clock(trace, links, mine, steps)
    # Gaps of all devices, longest first.
    enclosing = EnclosingOps(trace)
    named = {name: part for name, part in phases.items() if name != OPERATORS}
    gaps = [gap for device, gaps_of in idle.items()
            for gap in list_gaps(device, gaps_of, enclosing, named)]  # fmt: skip
    return TraceAnalysis(
        trace=trace,
        activity=activity,
        ops=op_calls(trace).table(),
        modules=module_table(trace),
        kernels=kernel_table(trace, links),
        gaps=tuple(sorted(gaps, key=lambda gap: (-gap.duration, gap.start))),
        idle=tuple(
            IdleTime(device, cause, part.total)
            for device, times in idle.items()
            for cause, part in times.causes.items()
            if len(part)
        ),
        steps=steps,
        step_parts=step_parts(timed or (whole,), parts),
        notes=tuple(_notes(trace, host, phases, activity, busiest, steps, whole, idle)),
    )


def without_tables(trace: Trace) -> TraceAnalysis:
    """What can be drawn of a trace before it is analysed: its events and its steps."""
    return TraceAnalysis(trace, find_steps(trace))


def _notes(
    trace: Trace,
    host: Host,
    phases: Mapping[str, Intervals],
    activity: tuple[DeviceActivity, ...],
    busiest: int,
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
            f"{len(activity)} devices: the step breakdown is that of device {busiest}, the busiest"
        )
    unread = trace.metadata.get(NOT_READ)
    if isinstance(unread, Mapping):
        tables = ", ".join(f"{table} ({rows})" for table, rows in unread.items())
        yield f"not read: the rows of {tables}"
    unlinked = sum(use.unlinked for use in activity)
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
    yield from dict.fromkeys(note for gaps in idle.values() if (note := not_listed(gaps)))
    if FORWARD not in phases and not activity:
        yield "forward passes are not marked: their operators count as operators"


def _of_steps(trace: Trace, steps: tuple[Step, ...], whole: Step) -> Iterable[str]:
    if not steps:
        yield "no steps marked: the step breakdown covers the whole trace"
    elif by := step_source(trace, steps):
        left_out = fmt.duration(whole.duration - (steps[-1].end - steps[0].start))
        yield f"no steps marked: derived from the {by}; {left_out} around them is left out"


def device_activities(trace: Trace, links: Links) -> tuple[DeviceActivity, ...]:
    """Activity of each device that ran anything at a plausible time, by number."""
    devices = kinds.devices(trace)[links.activity]
    believable = kinds.believable(trace)[links.activity]
    activities = []
    for device in np.unique(devices[believable]).tolist():
        mine = devices == device
        rows, near = links.activity[mine], links.activity[mine & believable]
        counts: dict[str, int] = {}
        for name, category in (("kernel", KERNEL), ("memcpy", MEMCPY), ("memset", MEMSET)):
            chosen = rows[trace.in_category(category)[rows]]
            counts[f"{name}_count"] = len(chosen)
            counts[f"{name}_sum"] = int(np.sum(trace.duration[chosen]))
        activity = DeviceActivity(
            device=device,
            name=device_name(trace.metadata, device),
            **counts,
            start=int(trace.start[near].min()),
            end=int(trace.ends_of(near).max()),
            busy=kinds.busy(trace, near).total,
            unlinked=int(np.count_nonzero(links.launch[mine] == NONE)),
        )
        activities.append(activity)
    return tuple(activities)


def device_name(metadata: Mapping[str, Any], device: int) -> str:
    """The device's name in ``deviceProperties``; empty if it is not there."""
    listed = metadata.get("deviceProperties")
    for properties in listed if isinstance(listed, list) else []:
        if isinstance(properties, dict) and properties.get("id") == device:
            name = properties.get("name")
            return name if isinstance(name, str) else ""
    return ""


def kernel_table(trace: Trace, links: Links) -> KernelTable:
    """A row for each (category, name), most time first."""
    rows = links.activity
    width = max(1, len(trace.names))
    key = trace.category[rows].astype(np.int64) * width + trace.name[rows]
    groups, group = np.unique(key, return_inverse=True)
    duration = trace.duration[rows]
    total = sums(group, duration, len(groups))
    # The durations of each group are adjacent, shortest first.
    ordered = np.lexsort((duration, group))
    begin, by_length = np.searchsorted(group[ordered], np.arange(len(groups))), duration[ordered]
    count = np.bincount(group, minlength=len(groups)).astype(np.int64)
    first = rows[first_longest(group, duration, len(groups))]
    order = np.argsort(-total, kind="stable")
    return KernelTable(
        names=tuple(trace.names[int(groups[index] % width)] for index in order),
        categories=tuple(trace.categories[int(groups[index] // width)] for index in order),
        calls=count[order],
        total=total[order],
        shortest=by_length[begin][order],
        median=by_length[begin + (count - 1) // 2][order],
        longest=trace.duration[first][order],
        first_row=first[order],
        streams=_streams(trace, rows, group, order),
    )


def _streams(
    trace: Trace, rows: Int64, group: Int64, order: Int64
) -> tuple[tuple[tuple[int, int], ...], ...]:
    width = max(1, len(trace.tracks))
    pairs = np.unique(group.astype(np.int64) * width + trace.track[rows])
    streams: list[set[tuple[int, int]]] = [set() for _ in order]
    for pair in pairs.tolist():
        track = trace.tracks[pair % width]
        streams[pair // width].add((track.device, track.stream))
    return tuple(tuple(sorted(streams[index])) for index in order.tolist())
