"""Convolutions on the GPU: memory format of their tensors, choice of kernels, bias."""

from __future__ import annotations

import re

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.kernels.category import Category
from perftui.analysis.model import GapCause
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, rule, without_cost
from perftui.diagnosis.symptoms.operators.work import PARTS, kernel_work, listed
from perftui.facts.fact import Facts, NotApplicableError, UnknownError
from perftui.facts.gpu.kernels import StepKernels, is_named
from perftui.facts.settings import settings
from perftui.facts.source.operator_lines import forward_lines, made_where, with_line
from perftui.trace.model import NONE, Mask

_TRIES = 12
"""Kernels of one call from which it benchmarks them: a convolution takes one to four."""


def alike_in_steps(kernels: StepKernels) -> bool:
    """Whether all of several steps launched the same kernels equally often: their sizes are then
    fixed, as far as names show; recorded input sizes must be the same as well."""
    trace, steps = kernels.analysis.trace, kernels.steps
    if steps <= 1 or not len(kernels) or len(kernels) % steps:
        return False
    names = trace.name[kernels.rows].reshape(steps, -1)
    if (names != names[0]).any():
        return False
    operators = kernels.operator.reshape(steps, -1)[:, :_MOST_SIZES].tolist()
    first, last = (
        [trace.read_arguments(row).get("Input Dims") for row in of_step if row != NONE]
        for of_step in (operators[0], operators[-1])
    )
    return first == last


_MOST_SIZES = 64
"""Most calls whose sizes are read from the file."""

_NORM_FOLLOWS = 2
"""Operators after a convolution that may be its normalisation, which counts its calls first."""


def bias_before_norm(kernels: StepKernels) -> Mask:
    """Kernels that add the bias of a convolution followed by batch normalisation."""
    trace = kernels.analysis.trace
    adding = is_named(trace, kernels.operator, "aten::add_")
    inner = kinds.callers(trace, np.where(adding, kernels.operator, NONE))
    inner = np.where(is_named(trace, inner, "aten::_convolution"), inner, NONE)
    # aten::conv2d calls aten::convolution, and that aten::_convolution.
    outer = kinds.callers(trace, kinds.callers(trace, inner))
    if not (outer != NONE).any():
        return np.zeros(len(kernels), dtype=bool)
    rows = np.flatnonzero(kinds.operators(trace))
    above = trace.parent[rows]
    direct = rows[(above == NONE) | ~kinds.operators(trace)[above]]
    at = np.searchsorted(direct, outer)
    follows = np.zeros(len(kernels), dtype=bool)
    for behind in range(1, _NORM_FOLLOWS + 1):
        following = direct[np.minimum(at + behind, len(direct) - 1)] if len(direct) else outer
        follows |= is_named(trace, following, "aten::batch_norm")
    wasted: Mask = follows & (outer != NONE)
    return wasted


_CHANNELS_FIRST_NORM = re.compile(r"at::native::batch_norm_(?!\w*channels_last)\w*kernel")
"""PyTorch's batch normalisation of tensors that are not channels last."""

_NORM_GAIN = 2
"""Speedup of channels last: in a ResNet-50 on an H100, in bfloat16, 23.0 ms became 10.7 ms."""


@rule(
    when="kernels convert the tensors of convolutions from channels first to channels last",
    limits=Limits("Conversions are pure loss.", 0.02, 0.20),
    fixes=("channels-last",),
    answer="convert the model and its input with .to(memory_format=torch.channels_last)",
)
def layout_conversion(facts: Facts) -> Lost | None:
    """Tensor cores need channels last, so cuDNN converts around each convolution. The cost is the
    time of the conversions plus half of that of batch normalisation with channels first."""
    work = kernel_work(facts)
    moves = work.kernels.of(Category.LAYOUT)
    if not moves.time:
        return None
    norms = work.kernels.kept(
        layout_conversion.id, lambda kernels: kernels.named(_CHANNELS_FIRST_NORM.search)
    )
    also = f", and {fmt.duration(norms.time)} in normalisation, which is slower with channels first"
    return Lost(
        work.won(moves.time + norms.time * (1 - 1 / _NORM_GAIN)),
        work.of,
        f"The GPU spends {work.of_step(moves.time)} converting the tensors of convolutions from "
        f"channels first to channels last and back{also if norms.time else ''}.",
        (
            Figure.share("converting", work.within(moves.time) / work.of.mean),
            *listed(moves),
            *listed(norms)[:1],
            work.steps,
        ),
        with_line(facts, made_where(facts, moves.place), forward_lines.or_none(facts)),
        PARTS,
    )


@rule(
    when="cuDNN keeps benchmarking kernels after the warm-up",
    limits=Limits(),
    fixes=("cudnn-search-off",),
    answer=(
        "keep sizes fixed (crop, pad, drop_last=True), or set torch.backends.cudnn.benchmark = "
        "False"
    ),
)
def cudnn_benchmark(facts: Facts) -> Lost | None:
    """With torch.backends.cudnn.benchmark = True, cuDNN tries all its kernels for every new size of
    a convolution, which pays only if sizes stay the same."""
    work = kernel_work(facts)
    if not work.of.count:
        raise UnknownError("the trace marks no steps, so its warm-up is not known")
    kernels = work.kernels.of(Category.CONVOLUTION)
    calls, counts = np.unique(kernels.operator[kernels.operator != NONE], return_counts=True)
    tries = counts >= _TRIES
    if not tries.any():
        return None
    trying = int(kernels.analysis.trace.duration[calls[tries]].sum()) // kernels.steps
    return Lost(
        work.within(trying),
        work.of,
        f"cuDNN benchmarks kernels for {fmt.several(int(tries.sum()), 'convolution')} after the "
        f"warm-up, {work.of_step(trying)}: their sizes are new.",
        (Figure("kernels of one call", int(counts.max()), "count"), *listed(kernels), work.steps),
        with_line(facts, kernels.place, forward_lines.or_none(facts)),
        # It is host time in which the GPU runs trials, or waits for the next one.
        (*PARTS, GapCause.LAUNCH.value, GapCause.SYNCHRONISATION.value),
    )


@rule(
    when="convolutions of fixed sizes take much of the time, and cudnn.benchmark is off",
    limits=Limits.of_hint(0.30, "The gain is at most a third of that.", of="of GPU compute"),
    fixes=("cudnn-benchmark",),
    answer="set torch.backends.cudnn.benchmark = True, if sizes stay the same",
)
def cudnn_benchmark_off(facts: Facts) -> Lost | None:
    """With cudnn.benchmark, cuDNN tries all kernels once for each size. Results may differ in the
    last digits from run to run."""
    # The gain is unknown before the kernels are tried, so the cost is 0.
    cudnn = settings(facts).cudnn
    if cudnn.benchmark is not False:
        raise NotApplicableError
    if cudnn.enabled is False or cudnn.deterministic:
        return None
    work = kernel_work(facts)
    kernels = work.kernels.of(Category.CONVOLUTION)
    single = kernels.steps <= 1
    if not kernels.time or not (single or alike_in_steps(kernels)):
        return None
    share = kernels.time / work.kernels.time
    return without_cost(
        f"Convolutions take {fmt.percent(share)} of the GPU's time with the same kernels in each "
        "step, and torch.backends.cudnn.benchmark is off.",
        (
            Figure.share("of GPU compute in convolutions", share, cudnn_benchmark_off.limits.info),
            *listed(kernels),
            work.steps,
        ),
        with_line(facts, kernels.place, forward_lines.or_none(facts)),
        share=share,
        doubt="a single step does not show whether sizes stay the same" if single else "",
    )


@rule(
    when="convolutions add a bias right before batch normalisation",
    limits=Limits(
        "PyTorch's Conv2dBiasFollowedByBatchNorm2dPattern reports every one.", 0.02, 0.20
    ),
    answer="create these convolutions with bias=False",
)
def conv_bias_before_bn(facts: Facts) -> Lost | None:
    """Batch normalisation subtracts the mean, and the bias with it. The cost counts the forward
    pass only."""
    work = kernel_work(facts)
    adding = work.kernels.kept(bias_before_norm, bias_before_norm)
    if not adding.time:
        return None
    return work.lost(
        adding,
        adding.time,
        "Convolutions add a bias that the following batch normalisation removes again, for "
        f"{work.of_step(adding.time)}.",
        Figure("kernels a step", adding.count, "count"),
        lines=forward_lines,
    )
