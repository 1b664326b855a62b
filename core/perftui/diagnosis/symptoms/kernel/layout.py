"""Convolutions whose tensors lie in memory in an order that their kernels do not take."""

from __future__ import annotations

import re

from perftui import format as fmt
from perftui.analysis.kernels.category import Category
from perftui.analysis.model import GapCause
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.kernel.kernel_work import PARTS, kernel_work, listed
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.kernel.operator_calls import searching_calls
from perftui.facts.source.operator_lines import forward_lines, made_where, with_line

_CHANNELS_FIRST_NORM = re.compile(r"at::native::batch_norm_(?!\w*channels_last)\w*kernel")
"""PyTorch's batch normalisation of tensors that are not channels last."""

_NORM_GAIN = 2
"""Times faster that it is channels last: in a ResNet-50 on an H100, in bfloat16, 23.0 ms became
10.7 ms."""


def _layout(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    found = work.kernels.of(Category.LAYOUT)
    if not found.time:
        return None
    norms = work.kernels.kept(LAYOUT.id, lambda found: found.named(_CHANNELS_FIRST_NORM.search))
    also = ""
    if norms.time:
        also = (
            f", and {fmt.duration(norms.time)} in normalisation, which is slower with channels "
            "first"
        )
    return Lost(
        work.won(found.time + norms.time * (1 - 1 / _NORM_GAIN)),
        work.of,
        f"The GPU spends {work.of_step(found.time)} converting the tensors of convolutions from "
        f"channels first to channels last and back{also}.",
        (
            Figure.share("converting", work.within(found.time) / work.of.mean),
            *listed(found),
            *listed(norms)[:1],
            work.steps,
        ),
        with_line(facts, made_where(facts, found.place), forward_lines.or_none(facts)),
        PARTS,
    )


LAYOUT = Rule(
    id="layout-conversion",
    when="kernels convert the tensors of convolutions from channels first to channels last",
    explanation=(
        "Tensor cores need channels last (NHWC); PyTorch's default is channels first (NCHW), so "
        "cuDNN converts before and after each convolution. "
        "model.to(memory_format=torch.channels_last), and the same for the input, avoids that; "
        "normalisation and pooling get faster too. The cost is the time of the conversions plus "
        "half the time of PyTorch's batch normalisation with channels first."
    ),
    lost=_layout,
    limits=Limits(0.02, 0.20, "Conversions are pure loss, hence a low limit."),
    fixes=("channels-last",),
    answer="memory_format=torch.channels_last for model and input",
)


def _benchmark(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    if not work.of.count:
        raise UnknownError("the trace marks no steps, so its warm-up is not known")
    found = work.kernels.of(Category.CONVOLUTION)
    tried = searching_calls(found)
    if tried is None:
        return None
    return Lost(
        min(tried.time // work.kernels.steps, work.of.mean),
        work.of,
        f"cuDNN benchmarks kernels for {fmt.several(tried.calls, 'convolution')} after the "
        f"warm-up, {work.of_step(tried.time // work.kernels.steps)}: their sizes are new.",
        (Figure("kernels of one call", tried.most, "count"), *listed(found), work.steps),
        with_line(facts, found.place, forward_lines.or_none(facts)),
        # It is time of the host, in which the GPU tries, or waits for the next trial.
        (*PARTS, GapCause.LAUNCH.value, GapCause.SYNCHRONISATION.value),
    )


CUDNN_BENCHMARK = Rule(
    id="cudnn-benchmark",
    when="cuDNN keeps benchmarking kernels after the warm-up",
    explanation=(
        "With torch.backends.cudnn.benchmark = True, cuDNN runs all its kernels for every new "
        "size of a convolution to find the fastest. That pays if sizes stay the same. Keep them "
        "fixed (crop, pad, drop_last=True), or turn it off."
    ),
    lost=_benchmark,
    limits=Limits(0.05, 0.20, "The same limit as for other waits."),
    fixes=("cudnn-search-off",),
    answer="fixed sizes, or torch.backends.cudnn.benchmark = False",
)
