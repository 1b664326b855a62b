"""Matrix products whose sides tensor cores cannot load in whole pieces."""

from __future__ import annotations

import re

from perftui.analysis.kernels.category import Category, Precision, precision_of
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.kernel.kernel_work import PARTS, kernel_work, listed
from perftui.facts.fact import Facts
from perftui.facts.kernel.step_kernels import StepKernels
from perftui.facts.source.operator_lines import forward_lines, with_line
from perftui.facts.step.steady import Mask

_MISALIGNED = re.compile(r"align[ac]?[124](?!\d)")
"""What kernels have in their names that load fewer than eight elements at once."""

_SAVED = 1 / 3
"""Share saved of such a kernel: NVIDIA's guide to matrix multiplication shows products of 16 bits
one and a half to several times as fast with sides that are multiples of eight."""


def _is_misaligned(name: str) -> bool:
    return _MISALIGNED.search(name) is not None and precision_of(name) is Precision.HALF


def _are_misaligned(products: StepKernels) -> Mask:
    """Products with misaligned sides, but those of convolutions, whose sides are the image's."""
    return products.named(_is_misaligned) & ~products.called_by(lambda name: "conv" in name)


def _misaligned(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    found = work.kernels.of(Category.GEMM).kept(MISALIGNED.id, _are_misaligned)
    if not found.time:
        return None
    sizes = _sizes(found)
    return Lost(
        work.won(found.time * _SAVED),
        work.of,
        f"16-bit matrix products take {work.of_step(found.time)} in kernels for sizes that are not "
        f"multiples of eight{f', such as those of {sizes}' if sizes else ''}.",
        (Figure("kernels a step", found.count, "count"), *listed(found), work.steps),
        with_line(facts, found.place, forward_lines.or_none(facts)),
        PARTS,
        unproven="" if sizes else "the sizes of tensors (--shapes)",
    )


def _sizes(found: StepKernels) -> str:
    """Sizes of the inputs of the longest kernel; empty where they were not recorded."""
    place = found.place
    row = int(found.operator[found.rows == place.trace_row][0])
    sizes = found.analysis.trace.read_arguments(row).get("Input Dims") if row >= 0 else None
    if not isinstance(sizes, list):
        return ""
    return " and ".join("x".join(map(str, size)) for size in sizes if size)


MISALIGNED = Rule(
    id="misaligned-dims",
    when="16-bit matrix products with sizes that are not multiples of eight",
    explanation=(
        "Tensor cores load eight 16-bit numbers at once. If a matrix dimension is not a multiple "
        "of eight, cuBLAS uses a slower kernel. Pad the vocabulary, hidden and batch sizes to "
        "multiples of 8, ideally of 64 (128 on Hopper). The cost is a third of those kernels' "
        "time."
    ),
    lost=_misaligned,
    limits=Limits(0.05, 0.20, "PyTorch's MatMulDimInFP16Pattern reports every one."),
    answer="pad sizes to multiples of 8, ideally of 64",
)
