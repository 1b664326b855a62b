"""Whether the training uses a GPU, and how it does."""

from __future__ import annotations

from perftui.facts.cpu.machine import computes_on_gpu, machine_use
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.facts.step.trace_complete import complete, no_kernels
from perftui.facts.step.trace_steps import TraceSteps, trace_steps


@fact
def has_gpu(facts: Facts) -> bool | None:
    """Whether the training has a GPU; None where that is not known."""
    if computes_on_gpu(facts) or machine_use(facts).holds_memory:
        return True
    if facts.run is None:
        return None
    # A card in the machine proves nothing: many a training there computes on the processor.
    steps_tell = "reserved" in facts.steps and len(facts.steps)
    return False if steps_tell or not facts.run.manifest.gpus else None


@fact
def device_steps(facts: Facts) -> TraceSteps:
    """Steps of a trace that shows what the GPU did.

    Raises:
        NotApplicableError: the training has no GPU.
        UnknownError: no trace shows it.
    """
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
    """``device_steps`` of a trace whose idle time is to be believed.

    Raises:
        NotApplicableError: the training has no GPU.
        UnknownError: no trace shows it, or too little of it.
    """
    found = device_steps(facts)
    complete(found.analysis)
    return found
