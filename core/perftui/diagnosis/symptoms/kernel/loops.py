"""Work that is done for one tensor after the other, or done twice, around the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.intervals import Intervals, intersect, subtract, union, unite
from perftui.analysis.kinds import begun_in
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.analysis.steps import BACKWARD, OPERATORS, find_phases
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.kernel.kernel_work import PARTS, kernel_work, listed
from perftui.facts.cpu.machine import machine_use
from perftui.facts.fact import Facts, UnknownError, trace_fact
from perftui.facts.gpu.gap_places import source_line
from perftui.facts.gpu.gpu import device_steps
from perftui.facts.gpu.host_waits import idle_of_host
from perftui.facts.kernel.operator_calls import bias_before_norm, launched_under, zeroing
from perftui.facts.kernel.step_kernels import marked_steps
from perftui.facts.place import Place
from perftui.facts.source.operator_lines import forward_lines, part_lines, with_line
from perftui.facts.source.source_calls import loop_of
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.model import NONE, Int64, Trace

MANY_GROUPS = 50
"""Alike groups of operators in a row: as many parameters as a small network has."""

_LONGEST_GROUP = 8
"""Operators that are called for one tensor at most."""


@dataclass(frozen=True, eq=False)
class ParameterLoop:
    """The loops of the steady steps that take longest."""

    operators: tuple[str, ...]
    """Operators of one group."""
    groups: int
    """Groups in one step."""
    time: int
    """ns of the training thread, for one step, without phases amid them."""
    idle: int
    """ns of ``time`` in which the device waits for the loop."""
    row: int
    """The first operator."""


@trace_fact
def parameter_loop(analysis: TraceAnalysis) -> ParameterLoop | None:
    """A loop that calls the same few operators for one tensor after the other, between the phases
    of a step; None where there is none. Operators that wait for the device are another loss.

    Raises:
        UnknownError: the trace marks no steps.
    """
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None or not steps.steps:
        raise UnknownError("the trace marks no steps")
    between = _between_phases(trace, steps)
    rows = _called_in(trace, between)
    best = max(
        (_repeated(trace, rows, period) for period in range(1, _LONGEST_GROUP + 1)),
        key=lambda found: int((trace.start[found[1]] - trace.start[found[0]]).sum()),
    )
    first, last, period = best
    if not len(first):
        return None
    spans = intersect(union(trace.start[first], trace.ends_of(last)), between)
    at = int(np.searchsorted(trace.start[rows], trace.start[first[0]]))
    waits = set(np.unique(trace.name[kinds.synchronising(trace)]).tolist())
    names = trace.name[rows[at : at + period]].tolist()
    if waits.intersection(names):
        return None
    inside_loops = spans.holds(trace.start[rows])
    return ParameterLoop(
        tuple(trace.names[name] for name in names),
        int(inside_loops.sum()) // period // steps.steps,
        spans.total // steps.steps,
        intersect(spans, idle_of_host(analysis)).total // steps.steps,
        int(first[0]),
    )


def _between_phases(trace: Trace, steps: TraceSteps) -> Intervals:
    """When the steps are in none of their phases."""
    phases = [part for name, part in find_phases(trace).items() if name != OPERATORS]
    return subtract(marked_steps(steps.analysis, steps), unite(*phases))


def _called_in(trace: Trace, between: Intervals) -> Int64:
    """Operators that the training thread calls directly, in order, in that time."""
    operators = kinds.operators(trace)
    mine = operators & (trace.track == main_track(trace)) & begun_in(trace, between)
    rows = np.flatnonzero(mine)
    above = trace.parent[rows]
    # Those of one track are in order of their starts.
    outermost: Int64 = rows[(above == NONE) | ~operators[above]]
    return outermost


def _repeated(trace: Trace, rows: Int64, period: int) -> tuple[Int64, Int64, int]:
    """First and last rows of runs in which every ``period`` operators are the same again."""
    names = trace.name[rows]
    none = np.zeros(0, dtype=np.int64)
    if len(rows) <= period:
        return none, none, period
    alike = np.concatenate([[False], names[period:] == names[:-period], [False]])
    changes = np.flatnonzero(alike[1:] != alike[:-1])
    begins, ends = changes[::2], changes[1::2]
    long = ends - begins >= (MANY_GROUPS - 1) * period
    return rows[begins[long]], rows[ends[long] + period - 1], period


_FORWARD_ONLY = (
    "aten::linear",
    "aten::matmul",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::layer_norm",
    "aten::batch_norm",
    "aten::group_norm",
    "aten::scaled_dot_product_attention",
    "aten::gelu",
    "aten::relu",
    "aten::softmax",
)
"""Operators that the backward pass has others for."""


_SAVED = 0.9
"""Share saved of a loop: a handful of operators for all tensors at once is left."""


def _loop(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    trace = work.kernels.analysis.trace
    found = parameter_loop(work.kernels.analysis)
    if found is None:
        return None
    idle = work.within(_unprofiled(facts, found.idle))
    file, line = source_line(trace, found.row)
    loop = loop_of(facts, found.operators) if file is None else None
    if loop is not None:
        file, line = loop.file, loop.line
    place = Place(trace_row=found.row, operator=trace.name_of(found.row), file=file, line=line)
    return Lost(
        round(idle * _SAVED),
        work.of,
        f"The GPU idles {work.of_step(idle)} during a loop that calls {', '.join(found.operators)} "
        f"for one tensor at a time, {found.groups} times a step.",
        (
            Figure("identical groups of operators", found.groups, "count", MANY_GROUPS),
            Figure("the loop on the host, profiled", found.time, "ns"),
            work.steps,
        ),
        with_line(facts, place, part_lines(facts, GapCause.LAUNCH.value)),
        (GapCause.LAUNCH.value,),
    )


def _unprofiled(facts: Facts, idle: int) -> int:
    """Idle time of the trace as it is without the profiler, which slows the host."""
    judged, recorded = judged_step(facts), device_steps(facts)
    causes = [cause.value for cause in GapCause]
    of_trace = sum(recorded.part(cause) for cause in causes)
    of_run = sum(judged.part(cause) for cause in causes)
    return idle * min(of_run, of_trace) // of_trace if of_trace else idle


PER_PARAMETER = Rule(
    id="per-parameter-loop",
    when="a loop calls a few operators for one tensor at a time, outside the optimizer",
    explanation=(
        "Weight averaging (EMA), clipping and norms written as a loop over the parameters launch "
        "a few tiny kernels for each. torch._foreach_ functions do it for all tensors at once, as "
        "do torch.nn.utils.clip_grad_norm_ and torch.optim.swa_utils.AveragedModel with "
        "get_ema_multi_avg_fn. The cost is nine tenths of the GPU's idle time during the loop."
    ),
    lost=_loop,
    limits=Limits(0.05, 0.20, "The same limit as for other waits that the host causes."),
    fixes=("foreach-average", "clip-grad-norm"),
    answer="torch._foreach_ functions, or those in torch.nn.utils",
)


MUCH_FREE = 0.5
"""Share of its memory in use below which a GPU may hold what checkpointing throws away."""


def _recompute(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    backward = work.kernels.kept(BACKWARD, lambda found: found.in_phase(BACKWARD))
    found = backward.kept(RECOMPUTE.id, lambda found: launched_under(found, *_FORWARD_ONLY))
    time = found.time
    if not time:
        return None
    used = max((one.share for one in machine_use(facts).memory), default=None)
    free = ""
    if used is not None and used < MUCH_FREE:
        free = f", though {fmt.percent(1 - used)} of the GPU's memory is free"
    return Lost(
        work.won(time),
        work.of,
        f"The backward pass recomputes parts of the forward pass for {work.of_step(time)}: "
        f"activation checkpointing is on{free}.",
        (
            Figure("backward", backward.time, "ns"),
            *(() if used is None else (Figure.share("peak memory in use", used),)),
            *listed(found),
            work.steps,
        ),
        with_line(facts, found.place, forward_lines.or_none(facts)),
        PARTS,
    )


RECOMPUTE = Rule(
    id="backward-recompute",
    when="the backward pass recomputes the forward pass (activation checkpointing)",
    explanation=(
        "Activation checkpointing keeps fewer tensors and recomputes them when the backward pass "
        "needs them. It trades time for memory: a quarter of the step if it is on for all layers. "
        "If memory is free, turn it off, or use it for fewer layers."
    ),
    lost=_recompute,
    limits=Limits(0.30, 1.0, "It is intentional: a hint from 5 %, a warning from 30 %.", info=0.05),
    fixes=("recompute-off",),
    answer="checkpoint fewer layers if memory is free",
)


def _zero(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    found = work.kernels.kept(zeroing, zeroing)
    if not found.time:
        return None
    return Lost(
        work.won(found.time),
        work.of,
        f"zero_grad fills gradients with zeros for {work.of_step(found.time)}.",
        (Figure("kernels a step", found.count, "count"), work.steps),
        found.place,
        PARTS,
    )


ZERO_GRAD = Rule(
    id="zero-grad-memset",
    when="zero_grad fills gradients with zeros",
    explanation=(
        "zero_grad(set_to_none=True), the default since PyTorch 2.0, drops gradients instead of "
        "filling them; the backward pass then writes them instead of adding to them. CUDA graphs "
        "need them filled."
    ),
    lost=_zero,
    limits=Limits(0.05, 1.0, "PyTorch's GradNotSetToNonePattern reports every one.", info=0.01),
    answer="zero_grad(set_to_none=True)",
)


def _bias(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    found = work.kernels.kept(bias_before_norm, bias_before_norm)
    if not found.time:
        return None
    return Lost(
        work.won(found.time),
        work.of,
        "Convolutions add a bias that the following batch normalisation removes again, for "
        f"{work.of_step(found.time)}.",
        (Figure("kernels a step", found.count, "count"), *listed(found), work.steps),
        with_line(facts, found.place, forward_lines.or_none(facts)),
        PARTS,
    )


CONV_BIAS = Rule(
    id="conv-bias-before-bn",
    when="convolutions add a bias right before batch normalisation",
    explanation=(
        "Batch normalisation subtracts the mean, and the bias with it: the bias costs a kernel in "
        "the forward pass and a sum in the backward pass for nothing. Create such convolutions "
        "with bias=False. The cost counts the forward pass only."
    ),
    lost=_bias,
    limits=Limits(
        0.02, 0.20, "PyTorch's Conv2dBiasFollowedByBatchNorm2dPattern reports every one."
    ),
    answer="bias=False",
)
