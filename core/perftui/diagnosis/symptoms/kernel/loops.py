"""Work that is done for one tensor after the other, or done twice, around the model."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.analysis.steps.phases import BACKWARD
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.kernel.kernel_work import PARTS, kernel_work, listed
from perftui.facts.cpu.machine import machine_use
from perftui.facts.fact import Facts
from perftui.facts.gpu.gap_places import source_line
from perftui.facts.gpu.gpu import device_steps
from perftui.facts.kernel.operator_calls import bias_before_norm, launched_under, zeroing
from perftui.facts.kernel.parameter_loop import MANY_GROUPS, parameter_loop
from perftui.facts.place import Place
from perftui.facts.source.forward_line import forward_lines, with_line
from perftui.facts.source.part_lines import part_lines
from perftui.facts.source.source_calls import loop_of
from perftui.facts.step.judged_step import judged_step

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
