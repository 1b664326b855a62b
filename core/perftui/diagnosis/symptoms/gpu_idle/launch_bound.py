"""``launch-bound``: the GPU idles because the host launches kernels too slowly."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Claim, Lost, Rule
from perftui.facts.fact import Facts
from perftui.facts.gpu.gpu import idle_steps
from perftui.facts.gpu.idle_place import idle_place
from perftui.facts.kernel.kernels import Launches, launches
from perftui.facts.place import Place
from perftui.facts.source.lines import main_thread
from perftui.facts.source.moments import moments
from perftui.facts.source.operator_lines import forward_lines, with_line
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.trace_steps import TraceSteps
from perftui.run.stack_samples import FORWARD

MANY_KERNELS = 100
"""Kernels a step from which on it is their number that takes the host's time; nsys-ai."""

BACKWARD = "_engine_run_backward"
"""Torch's function that runs a backward pass."""

MOSTLY_GRAPHS = 0.5
"""Share of kernels that come by CUDA graphs, from which on what is left is no more than a hint:
the usual answer is in use."""

LEAST = 0.10
"""Share of the step that is worth a word."""

SHORT_KERNEL = 10_000
"""ns below which a kernel is over before the next one is there: a launch takes 5 to 10 us of the
host. nsys-ai and TraceLens use 10 us."""


def _launching(facts: Facts) -> Lost | None:
    trace, judged = idle_steps(facts), judged_step(facts)
    idle, step = judged.part(GapCause.LAUNCH.value), judged.of
    found = launches(trace.analysis)
    if found is None or idle < LEAST * step.mean:
        return None
    describe = fmt.part_of_step if step.of_run or step.count else fmt.part_of_trace
    which = "a step" if trace.steps else "in all"
    half = "half of them no longer than" if found.kernels_per_step > 1 else "of"
    return Lost(
        idle,
        step,
        f"The GPU idles {describe(idle, step.mean)} between launches: "
        f"{fmt.several(found.kernels_per_step, 'kernel')} {which}, "
        f"{half} {fmt.duration(found.median_ns)}.",
        tuple(_figures(found, idle / step.mean, which, trace.steps)),
        place=with_line(facts, _place(facts, trace), forward_lines.or_none(facts)),
        worst=Severity.INFO if found.in_graphs >= MOSTLY_GRAPHS else Severity.CRITICAL,
    )


def _place(facts: Facts, trace: TraceSteps) -> Place | None:
    """The backward pass launches what the forward pass has called: its line is the place, where
    samples show it."""
    place, lines = idle_place(facts, GapCause.LAUNCH, trace), main_thread(facts)
    launching = next(iter(lines.lines), None) if lines else None
    if place is None or launching is None or BACKWARD not in launching.inner:
        return place
    if (place.file, place.line) != (launching.file, launching.line):
        return place
    found = moments(facts)
    forward = found.lines(found.stage == FORWARD) if found else None
    if forward is None or not forward.suffices or not forward.lines[0].file:
        return place
    return facts.at(forward.lines[0])


def _figures(found: Launches, share: float, which: str, steps: int) -> Iterator[Figure]:
    yield Figure.share("device idle, launching", share, LAUNCH.limits.warning)
    yield Figure(f"kernels {which}", found.kernels_per_step, "count")
    yield Figure("median kernel", found.median_ns, "ns")
    if found.empty_queue is not None:
        yield Figure.share("launches into an empty queue", found.empty_queue)
    if found.in_graphs:
        yield Figure.share("kernels launched by CUDA graphs", found.in_graphs)
    yield Figure("what helps", _advice(found))
    yield Figure("profiled steps", steps, "count")


def _advice(found: Launches) -> str:
    """By the number and the length of the kernels."""
    if found.in_graphs >= MOSTLY_GRAPHS:
        return "moving the remaining launches into the CUDA graphs"
    if found.median_ns >= SHORT_KERNEL:
        return "less host work per launch: torch.compile"
    if found.kernels_per_step >= MANY_KERNELS:
        return "CUDA graphs, torch.compile, fused optimizers; a larger batch"
    return "a larger batch, or several steps in one CUDA graph"


LAUNCH = Rule(
    id="launch-bound",
    when="the GPU idles while the host prepares the next launch",
    explanation=(
        "The host takes longer to launch a kernel than the GPU takes to run it. The time goes to "
        "operators and the calls that enqueue kernels, and to the Python between them. Fewer, "
        "longer kernels help: torch.compile, CUDA graphs, foreach or fused optimizers, a larger "
        "batch."
    ),
    lost=_launching,
    limits=Limits(
        0.25,
        0.40,
        "gpu-idle calls a GPU that is busy four fifths of the time well used, and the profiler "
        "makes launches look longer than they are.",
        info=LEAST,
    ),
    claims=Claim(idle=GapCause.LAUNCH),
    fixes=("compile", "compile-graphs"),
    answer="torch.compile, CUDA graphs, fused optimizers, larger batches",
)
