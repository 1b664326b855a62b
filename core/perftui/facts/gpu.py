"""Whether the training uses a GPU, and how it does."""

from __future__ import annotations

from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.facts.machine import machine_use
from perftui.facts.memory import peak_reserved
from perftui.facts.trace_steps import TraceSteps, trace_steps


@fact
def uses_cuda(facts: Facts) -> bool | None:
    """Whether PyTorch's CUDA was in use at the end of any step; None before the first step."""
    known = "reserved" in facts.steps and len(facts.steps)
    return peak_reserved(facts) is not None if known else None


@fact
def has_gpu(facts: Facts) -> bool | None:
    """Whether the training has a GPU; None where nothing tells."""
    in_use = uses_cuda(facts)
    trace = trace_steps.or_none(facts)
    if in_use or (facts.rank and machine_use(facts).holds_memory) or (trace and trace.has_gpu):
        return True
    if facts.run is None:
        return None
    # A card in the machine says nothing: many a training there computes on the processor.
    return None if facts.run.manifest.gpus and in_use is None else False


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
    raise UnknownError("no GPU kernels in this trace: recorded with CPU activity only")
