"""Attention that writes the scores of all pairs of positions to memory."""

from __future__ import annotations

from perftui.analysis.kernels.category import Category
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.kernel.kernel_work import PARTS, KernelWork, kernel_work, listed
from perftui.facts.fact import Facts
from perftui.facts.kernel.kernel_chains import kernel_chains
from perftui.facts.kernel.operator_calls import is_called, masked_attention
from perftui.facts.kernel.step_kernels import StepKernels
from perftui.facts.source.operator_lines import operator_lines, with_line

_MATH = "aten::_scaled_dot_product_attention_math"
_SOURCE = "A fused kernel saves all of it."


def _unfused(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    if is_called(work.kernels.analysis, _MATH):
        # ATTENTION_MASK speaks of it.
        return None
    found = kernel_chains(work.kernels.analysis).attention
    return _lost(
        facts,
        work,
        found,
        found.time,
        f"Between the two matrix products of attention the GPU spends {work.of_step(found.time)} "
        "in softmax, masks and scaling, each of which moves the scores of all pairs of positions "
        "through memory.",
    )


UNFUSED = Rule(
    id="unfused-attention",
    when="attention runs softmax between two matrix products as separate kernels",
    explanation=(
        "Attention written out by hand writes the scores of all pairs of positions to memory and "
        "reads them back for scaling, mask, softmax and dropout. "
        "torch.nn.functional.scaled_dot_product_attention does it in one kernel that never writes "
        "them. The cost is the time of the kernels between the two matrix products."
    ),
    lost=_unfused,
    limits=Limits(0.05, 0.20, _SOURCE),
    fixes=("attention-fused",),
    answer="torch.nn.functional.scaled_dot_product_attention",
)


def _mask(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    analysis = work.kernels.analysis
    if is_called(analysis, _MATH):
        found = kernel_chains(analysis).attention
        return _lost(
            facts,
            work,
            found,
            found.time,
            "scaled_dot_product_attention falls back to its slow path, with softmax and mask as "
            f"separate kernels: they take {work.of_step(found.time)}.",
        )
    mask = masked_attention(analysis)
    if mask is None:
        return None
    found = work.kernels.of(Category.ATTENTION)
    sizes = " x ".join(str(size) for size in mask)
    return _lost(
        facts,
        work,
        found,
        # A causal kernel leaves out one half of the pairs.
        found.time // 2,
        f"Attention takes {work.of_step(found.time)} and reads a mask of {sizes} from memory, "
        "which rules out the fastest kernels.",
        "whether the mask is causal",
    )


def _lost(
    facts: Facts,
    work: KernelWork,
    found: StepKernels,
    saved: int,
    sentence: str,
    unproven: str = "",
) -> Lost | None:
    if not saved:
        return None
    return Lost(
        work.won(saved),
        work.of,
        sentence,
        (Figure("kernels a step", found.count, "count"), *listed(found), work.steps),
        with_line(facts, found.place, operator_lines.or_none(facts)),
        PARTS,
        unproven=unproven,
    )


ATTENTION_MASK = Rule(
    id="attention-mask",
    when="scaled_dot_product_attention reads a mask from memory, or falls back to its slow path",
    explanation=(
        "FlashAttention supports only causal masks: with attn_mask torch chooses a slower kernel, "
        "and also computes the pairs that a causal mask skips. Pass is_causal=True instead. torch "
        "takes the slow path, softmax between two matrix products, for data types, devices and "
        "head sizes that no fused kernel supports, and if the fused backends are disabled."
    ),
    lost=_mask,
    limits=Limits(0.05, 0.20, _SOURCE),
    answer="is_causal=True instead of a mask; 16 bits; the backends of torch.nn.attention",
)
