"""Memory of each device over a trace, by what it is for."""

from __future__ import annotations

from perftui.analysis.memory import MemoryOverTime, memory_of_trace
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import UnknownError, trace_fact


@trace_fact
def memory_over_time(analysis: TraceAnalysis) -> tuple[MemoryOverTime, ...]:
    """Memory of each device by category, GPUs first, as far as the trace records allocations."""
    found = memory_of_trace(analysis.trace)
    if not found:
        raise UnknownError("no allocation was recorded")
    return found
