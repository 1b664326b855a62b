"""``launch-bound``: the host issues kernels more slowly than the device runs them."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Abstention, Fact, Finding, Severity
from perftui.diagnosis.policy import Policy
from perftui.diagnosis.rules.device_idle import device_trace
from perftui.diagnosis.severity import more_steps, severity, supported_by_trace, trace_confidence
from perftui.facts.launches import LaunchFacts, launch_facts
from perftui.facts.trace_steps import TraceFacts

RULE = "launch-bound"


def evaluate(evidence: Evidence, policy: Policy) -> Finding | Abstention | None:
    """Find many short kernels, a queue mostly empty, and idle of ``policy.launch_warning``."""
    trace = device_trace(evidence, RULE)
    if not isinstance(trace, TraceFacts):
        return trace
    if trace.steps == 0:
        return Abstention(RULE, "the trace marks no steps, so kernels a step cannot be counted")
    launches = launch_facts(trace)
    idle = trace.part(GapCause.LAUNCH.value)
    found = severity(idle / trace.step_ns, policy.launch_warning, policy.launch_critical)
    if launches is None or found is None:
        return None
    if launches.empty_queue is None:
        return Abstention(RULE, "the kernels' launches are not in the trace")
    other = _other_than_many_short_kernels(launches, policy)
    if other is None:
        return _finding(found, idle, trace, launches, policy)
    waits = f"the GPU idles {fmt.part_of_step(idle, trace.step_ns)} between launches"
    return Abstention(RULE, f"{waits}, yet {other}: no rule says why")


def _other_than_many_short_kernels(launches: LaunchFacts, policy: Policy) -> str | None:
    """What speaks against launching as the cause, None where nothing does."""
    if launches.kernels_per_step < policy.launch_kernels:
        return f"a step has only {fmt.several(launches.kernels_per_step, 'kernel')}"
    if launches.median_ns >= policy.launch_kernel_ns:
        return f"half of its kernels last {fmt.duration(launches.median_ns)} or more"
    if (launches.empty_queue or 0.0) < policy.launch_empty_queue:
        return "its queue is seldom empty"
    return None


def _finding(
    found: Severity, idle: int, trace: TraceFacts, launches: LaunchFacts, policy: Policy
) -> Finding:
    share = round(100 * idle / trace.step_ns, 1)
    empty = round(100 * (launches.empty_queue or 0.0), 1)
    return Finding(
        RULE,
        supported_by_trace(found, trace.steps, policy),
        f"The GPU idles {fmt.part_of_step(idle, trace.step_ns)} between launches: "
        f"{launches.kernels_per_step} kernels a step, "
        f"half of them no longer than {fmt.duration(launches.median_ns)}.",
        (
            Fact("device idle, launching", share, "%", 100 * policy.launch_warning),
            Fact("kernels a step", launches.kernels_per_step, "count", policy.launch_kernels),
            Fact("median kernel", launches.median_ns, "ns", policy.launch_kernel_ns),
            Fact("launches into an empty queue", empty, "%", 100 * policy.launch_empty_queue),
            Fact("steady steps", trace.steps, "count"),
        ),
        idle,
        trace.step_ns,
        trace_confidence(trace.steps, policy),
        (),
        more_steps(trace.steps, policy),
        trace.steps,
    )
