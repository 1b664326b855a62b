"""Matrix products, convolutions and attention in a higher precision than the training needs."""

from __future__ import annotations

import numpy as np

from perftui.analysis.kernels.category import ON_TENSOR_CORES, Category, Precision, precision_of
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.kernel.kernel_work import PARTS, kernel_work, listed
from perftui.facts.fact import Facts
from perftui.facts.gpu.card import TraceCard, trace_card
from perftui.facts.kernel.step_kernels import StepKernels
from perftui.facts.settings import settings
from perftui.facts.source.operator_lines import forward_lines, made_where, with_line
from perftui.facts.step.steady import Mask

_KNOWS_TF32 = 8
"""Compute capability from which on tensor cores compute TF32: Ampere."""

_FASTEST = 8.0
"""Times faster that a product is taken to become at most: then memory holds it back."""

_USUAL_TF32, _USUAL_HALF = 2.0, 2.0
"""Times faster on a card that is not listed: the least of those listed where it helps at all."""

_HALF_ATTENTION = 4.0
"""Times faster that float32 attention becomes in 16 bit: on an H100 14.7 ms became 1.5 ms, and its
tensor cores have six times the rate (float32 attention computes three TF32 products for one)."""


_FASTEST_HALF = 4.0
"""Times faster that 16 bits are taken to make a product at most."""

_SLOW = (Precision.FLOAT32, Precision.TF32)


def _chosen(kernels: StepKernels, precision: Precision, *categories: Category) -> StepKernels:
    found = kernels.of(*categories)
    return found.kept(precision, lambda one: one.named(lambda n: precision_of(n) is precision))


def _float32_products(facts: Facts, kernels: StepKernels) -> StepKernels:
    """Products and convolutions in float32 that TF32 would be allowed to do."""
    known = settings(facts)
    matmul = known.matmul if known else None
    categories = [Category.GEMM, Category.CONVOLUTION]
    if matmul and (matmul.allow_tf32 or matmul.float32_precision in ("high", "medium")):
        # Products of a few elements stay on the ordinary units.
        categories.remove(Category.GEMM)
    if matmul is None or matmul.cudnn_allow_tf32 is not False:
        # cuDNN may take TF32 unless that is switched off: where it does not, it knows why.
        categories.remove(Category.CONVOLUTION)
    return _chosen(kernels, Precision.FLOAT32, *categories)


def _tf32_gain(card: TraceCard) -> float:
    """Times faster than float32 TF32 is on that card; 1 where it is not."""
    if card.major < _KNOWS_TF32:
        return 1.0
    if card.peaks is None:
        return _USUAL_TF32
    return max(min(card.peaks.tf32 / card.peaks.float32, _FASTEST), 1.0)


def _matmul(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    found = _float32_products(facts, work.kernels)
    gain = _tf32_gain(trace_card(facts))
    time = found.time
    if not time or gain == 1:
        return None
    share = work.won(time) / work.of.mean
    known = settings(facts)
    # Whoever sets it himself has set it so.
    set_at = known.place("set_float32_matmul_precision", "matmul.allow_tf32") if known else None
    place = with_line(facts, found.place, forward_lines.or_none(facts)) or found.place
    return Lost(
        work.won(time * (1 - 1 / gain)),
        work.of,
        f"The GPU multiplies float32 matrices for {work.of_step(time)} without its tensor cores: "
        f"TF32, {gain:.0f} times as fast here, is off.",
        (
            Figure.share("in float32 products", share, MATMUL_FP32.limits.warning, found.place),
            *listed(found),
            work.steps,
        ),
        set_at or made_where(facts, place),
        PARTS,
        share=share,
    )


MATMUL_FP32 = Rule(
    id="matmul-fp32",
    when="matrix products in float32 although the card supports TF32",
    explanation=(
        "Since Ampere, tensor cores multiply float32 matrices several times faster with inputs "
        "rounded to TF32 (10 bits of mantissa, sums stay float32). PyTorch leaves that off for "
        "matrix products. torch.set_float32_matmul_precision('high') at the start of the script "
        "turns it on; bfloat16 autocast is faster still. The cost follows from the card's peak "
        "rates, with a speed-up of eight at most."
    ),
    lost=_matmul,
    limits=Limits(0.10, 0.20, "PyTorch's own FP32MatMulPattern reports every float32 product."),
    fixes=("tf32", "autocast-bf16"),
    answer='torch.set_float32_matmul_precision("high"), or autocast to bfloat16',
)


def _tensor_cores(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    card = trace_card(facts)
    eligible = work.kernels.of(*ON_TENSOR_CORES)
    # The rule above speaks of those.
    others = _float32_products(facts, eligible) if _tf32_gain(card) > 1 else None

    def slow(kernels: StepKernels) -> Mask:
        chosen = kernels.named(lambda name: precision_of(name) in _SLOW)
        return chosen if others is None else chosen & ~np.isin(kernels.rows, others.rows)

    found = eligible.kept((TENSOR_CORES.id, others), slow)
    time, busy = found.time, work.kernels.time
    if not time:
        return None
    what = " and ".join(kind.value for kind in ON_TENSOR_CORES if len(found.of(kind)))
    how = " and ".join(one.value for one in _SLOW if len(_chosen(found, one, *ON_TENSOR_CORES)))
    return Lost(
        work.won(_saved(found, card)),
        work.of,
        f"The GPU spends {work.of_step(time)} on {what} in {how}, where 16 bits would do.",
        (
            Figure.share("of GPU compute", time / busy, TENSOR_CORES.limits.warning),
            *listed(found),
            work.steps,
        ),
        with_line(facts, found.place, forward_lines.or_none(facts)),
        PARTS,
        share=work.won(time) / busy,
    )


def _saved(found: StepKernels, card: TraceCard) -> float:
    """What 16 bits would save of those kernels, ns for one step."""
    peaks = card.peaks
    tf32 = min(peaks.half / peaks.tf32, _FASTEST_HALF) if peaks and peaks.tf32 else _USUAL_HALF
    float32 = min(peaks.half / peaks.float32, _FASTEST_HALF) if peaks else _USUAL_HALF
    products = (Category.GEMM, Category.CONVOLUTION)
    parts = (
        (_chosen(found, Precision.TF32, *ON_TENSOR_CORES), tf32),
        (_chosen(found, Precision.FLOAT32, *products), float32),
        (_chosen(found, Precision.FLOAT32, Category.ATTENTION), _HALF_ATTENTION),
    )
    return sum(part.time * (1 - 1 / max(gain, 1.0)) for part, gain in parts)


TENSOR_CORES = Rule(
    id="tensor-cores-unused",
    when="matrix products, convolutions or attention in float32 or TF32 where 16 bits would do",
    explanation=(
        "Tensor cores compute bfloat16 at twice the rate of TF32 and up to sixteen times that of "
        "float32, and move half the bytes. torch.autocast('cuda', dtype=torch.bfloat16) around "
        "the forward pass keeps the weights in float32; cards before Ampere need float16 with a "
        "GradScaler. The cost follows from the card's peak rates, with a speed-up of four at most."
    ),
    lost=_tensor_cores,
    limits=Limits(
        0.20,
        0.40,
        "TensorBoard reports a training that uses none; it pays from a fifth of the GPU's time.",
        of="of GPU compute",
    ),
    fixes=("autocast-bf16",),
    answer="torch.autocast to bfloat16",
)
