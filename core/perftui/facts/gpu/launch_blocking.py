"""Whether every launch waits until its kernel is over, as CUDA_LAUNCH_BLOCKING makes it."""

from __future__ import annotations

import numpy as np

from perftui.analysis.links import launch_of
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import trace_fact
from perftui.facts.gpu.host_waits import idle_of_host
from perftui.facts.kernel.kernels import kernels
from perftui.trace.model import NONE

FEWEST_LAUNCHES = 20
"""In the steady steps; a few short kernels are over by chance when their launch is."""

MOSTLY = 0.9
"""Share of launches from which on all of them wait: else hardly one does."""


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
    if np.mean(trace.ends_of(launch) >= trace.ends_of(rows)) < MOSTLY:
        return None
    waited = int((trace.ends_of(launch) - trace.start[rows]).clip(min=0).sum())
    return min(waited, idle_of_host(analysis).total)
