"""What the critical path of a trace consists of."""

from __future__ import annotations

from collections.abc import Mapping

from perftui.analysis.critical_path import Link, critical_path
from perftui.analysis.gpu_idle.causes import Host
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import UnknownError, trace_fact


@trace_fact
def critical_path_parts(analysis: TraceAnalysis) -> Mapping[Link, int]:
    """Time of each kind of link on it, ns; they sum to the time from the trace's first event to
    its last.

    Raises:
        UnknownError: the trace does not have both device and host activity.
    """
    chain = critical_path(analysis.trace, Host(analysis.trace))
    if not chain:
        raise UnknownError("the trace does not have both device and host activity")
    return {kind: sum(one.duration for one in chain if one.kind is kind) for kind in Link}
