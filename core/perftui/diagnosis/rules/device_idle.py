"""What rules about an idle device need first: a trace that shows the device."""

from __future__ import annotations

from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Abstention
from perftui.facts.trace_steps import TraceFacts


def device_trace(evidence: Evidence, rule: str) -> TraceFacts | Abstention | None:
    """The trace, None for a training without a GPU, or why the device cannot be judged."""
    if evidence.trace and evidence.trace.has_gpu:
        return evidence.trace
    if evidence.has_gpu is False:
        return None
    if evidence.trace is None:
        return Abstention(rule, "no window has been profiled")
    return Abstention(rule, "no GPU kernels in this trace: recorded with CPU activity only")
