"""Kernels of the busiest device in the steady steps, and how they were launched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.links import link
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.step.trace_complete import no_kernels
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.model import KERNEL, NONE, Int64, Trace


@dataclass(frozen=True, eq=False)
class Kernels:
    """Rows of the kernels, ordered by start."""

    steps: TraceSteps
    rows: Int64


@trace_fact
def kernels(analysis: TraceAnalysis) -> Kernels:
    """The kernels of the busiest device that begin in the steady steps.

    Raises:
        UnknownError: the trace shows none.
    """
    steps = trace_steps(analysis)
    if steps is None or not steps.has_gpu:
        raise UnknownError(no_kernels(analysis))
    trace = analysis.trace
    rows = link(trace).activity
    chosen = trace.in_category(KERNEL) & steps.on_device & steps.inside
    return Kernels(steps, rows[chosen[rows]])


@dataclass(frozen=True)
class Launches:
    """How kernels reached a device."""

    kernels_per_step: int
    median_ns: int
    """Median duration of a kernel."""
    empty_queue: float | None
    """Share of linked launches that found the device with nothing running; None without links."""
    in_graphs: float
    """Share of the linked kernels that came by a launch of several, which is a CUDA graph."""


@trace_fact
def launches(analysis: TraceAnalysis) -> Launches | None:
    """Launches of the busiest device in the steady steps; None where it ran no kernel there."""
    found = kernels(analysis)
    durations = np.sort(analysis.trace.duration[found.rows])
    if not len(durations):
        return None
    return Launches(
        kernels_per_step=len(durations) // max(found.steps.steps, 1),
        median_ns=int(durations[(len(durations) - 1) // 2]),
        empty_queue=_empty_queue(analysis.trace, found),
        in_graphs=_in_graphs(analysis.trace, found),
    )


def _in_graphs(trace: Trace, found: Kernels) -> float:
    links = link(trace)
    mine = (trace.in_category(KERNEL) & found.steps.on_device & found.steps.inside)[links.activity]
    launch = links.launch[mine]
    launch = launch[launch != NONE]
    kernels_of = np.unique(launch, return_counts=True)[1]
    return float(kernels_of[kernels_of > 1].sum() / len(launch)) if len(launch) else 0.0


def _empty_queue(trace: Trace, found: Kernels) -> float | None:
    """Share of launches of those kernels during which every earlier activity of their device was
    over.

    Activities of a device are ordered by start; the running maximum of their ends is when the
    device, over all its streams, has nothing left of what came before.
    """
    # Marks that the profiler copies onto the device's tracks span whole steps: they are no work.
    links, steps = link(trace), found.steps
    mine = steps.on_device[links.activity]
    rows, launch = links.activity[mine], links.launch[mine]
    ends = np.maximum.accumulate(trace.ends_of(rows))
    earlier = np.concatenate(([np.iinfo(np.int64).min], ends[:-1]))
    chosen = (trace.in_category(KERNEL) & steps.inside)[rows]
    launch = launch[chosen]
    known = launch != NONE
    if not known.any():
        return None
    return float(np.mean(earlier[chosen][known] <= trace.start[launch[known]]))
