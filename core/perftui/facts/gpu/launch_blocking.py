"""Whether every launch waits until its kernel is over, as CUDA_LAUNCH_BLOCKING makes it."""

from __future__ import annotations

import numpy as np

from perftui.analysis.links import launch_of
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import trace_fact
from perftui.facts.gpu.host_waits import idle_of_host
from perftui.facts.kernel.kernels import kernels
from perftui.trace.model import NONE, Int64

FEWEST_LAUNCHES = 20
"""In the steady steps; a few short kernels are over by chance when their launch is."""

MOSTLY = 0.9
"""Share of launches from which on all of them wait: else hardly one does."""

SOON = 20_000
"""ns after its kernel's end in which a launch that waits returns: 3 to 4 us on an H100."""

LEAST = 0.5
"""Share of its launch that a kernel takes, or of its growth, to prove anything: short kernels begin
and end within calls that do not wait."""

APART = 1_000
"""ns between the usual short and the usual long kernel from which on launches can be compared."""


@trace_fact
def launches_block(analysis: TraceAnalysis) -> int | None:
    """Time that launches wait for their kernels and the device then for the host, ns in all steady
    steps; None where launches do not wait.

    Raises:
        UnknownError: the trace shows no GPU.
    """
    found, trace = kernels(analysis), analysis.trace
    launch = launch_of(trace, found.rows)
    rows, launch = found.rows[launch != NONE], launch[launch != NONE]
    if len(rows) < FEWEST_LAUNCHES:
        return None
    after = trace.ends_of(launch) - trace.ends_of(rows)
    # A kernel that begins before its launch is on another clock.
    held = (trace.start[rows] >= trace.start[launch]) & (after >= 0) & (after <= SOON)
    if np.mean(held) < MOSTLY or not _follow(trace.duration[launch], trace.duration[rows]):
        return None
    waited = int((trace.ends_of(launch) - trace.start[rows]).clip(min=0).sum())
    return min(waited, idle_of_host(analysis).total)


def _follow(launches: Int64, kernels: Int64) -> bool:
    """Whether launches last as long as their kernels make them: most of a launch is its kernel, or
    the launch of a long kernel is longer than that of a short one by as much."""
    if np.median(kernels) >= LEAST * np.median(launches):
        return True
    long = kernels > np.median(kernels)
    if not long.any():
        return False
    apart = np.median(kernels[long]) - np.median(kernels[~long])
    grown = np.median(launches[long]) - np.median(launches[~long])
    return bool(apart >= APART and grown >= LEAST * apart)
