"""``launch-bound``: the GPU idles because the host launches kernels too slowly."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.gpu import device_steps
from perftui.facts.kernels import Launches, launches
from perftui.facts.trace_steps import TraceSteps

LAUNCH_KERNELS = 100
"""Fewest kernels a step; nsys-ai."""

LAUNCH_KERNEL_NS = 10_000
"""Median kernel below this: a launch takes 5 to 10 µs of host time, so shorter kernels end before
the next one is there. nsys-ai and TraceLens use 10 µs."""

LAUNCH_EMPTY_QUEUE = 0.5
"""Share of launches that find nothing queued or running on the device: most of them."""


def _launching(facts: Facts) -> Lost | None:
    trace = device_steps(facts)
    if trace.steps == 0:
        raise UnknownError("the trace marks no steps, so kernels a step cannot be counted")
    found = launches(trace.analysis)
    idle = trace.part(GapCause.LAUNCH.value)
    if found is None:
        return None
    empty = found.empty_queue or 0.0
    return Lost(
        idle,
        trace.breakdown,
        f"The GPU idles {fmt.part_of_step(idle, trace.step_ns)} between launches: "
        f"{found.kernels_per_step} kernels a step, "
        f"half of them no longer than {fmt.duration(found.median_ns)}.",
        (
            Figure.share("device idle, launching", idle / trace.step_ns, LAUNCH.limits.warning),
            Figure("kernels a step", found.kernels_per_step, "count", LAUNCH_KERNELS),
            Figure("median kernel", found.median_ns, "ns", LAUNCH_KERNEL_NS),
            Figure.share("launches into an empty queue", empty, LAUNCH_EMPTY_QUEUE),
            Figure("steady steps", trace.steps, "count"),
        ),
        doubt=_other_than_short_kernels(found, idle, trace),
    )


def _other_than_short_kernels(found: Launches, idle: int, trace: TraceSteps) -> str:
    """What speaks against launching as the cause, empty where nothing does."""
    if found.empty_queue is None:
        return "the kernels' launches are not in the trace"
    if found.kernels_per_step < LAUNCH_KERNELS:
        but = f"a step has only {fmt.several(found.kernels_per_step, 'kernel')}"
    elif found.median_ns >= LAUNCH_KERNEL_NS:
        but = f"half of its kernels last {fmt.duration(found.median_ns)} or more"
    elif found.empty_queue < LAUNCH_EMPTY_QUEUE:
        but = "its queue is seldom empty"
    else:
        return ""
    waits = f"the GPU idles {fmt.part_of_step(idle, trace.step_ns)} between launches"
    return f"{waits}, yet {but}: no rule says why"


LAUNCH = Rule(
    id="launch-bound",
    when="the GPU idles while many short kernels are launched",
    explanation=(
        "The host takes longer to launch a kernel than the GPU to run it. Fewer, longer kernels "
        "help: torch.compile, CUDA graphs, foreach or fused optimizers, a larger batch."
    ),
    lost=_launching,
    limits=Limits(0.10, 0.20, "A fifth of the step is critical, as for data."),
    claims=Claim(idle=GapCause.LAUNCH),
    answer="torch.compile, CUDA graphs, fused optimizers, larger batches",
)
