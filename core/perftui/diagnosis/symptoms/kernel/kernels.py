"""The GPU is busy, with kernels that take longer than they need to."""

from __future__ import annotations

import re

from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Lost, Rule
from perftui.diagnosis.symptoms.cpu.cpu_float64 import float64_on_cpu
from perftui.diagnosis.symptoms.kernel.kernel_work import PARTS, kernel_work, listed
from perftui.facts.fact import Facts
from perftui.facts.gpu.gpu import has_gpu
from perftui.facts.kernel.step_kernels import StepKernels
from perftui.facts.source.operator_lines import operator_lines, with_line
from perftui.facts.step.steady import Mask

_FLOAT64 = re.compile(
    r"(?<!optional)<((int|\d+(ul)?), )*(const )?double\b|\{lambda\(double\b|\bdouble( const)?\*"
    r"|(?<![a-z])d(gemm|gemv|syrk|trsm|potrf|geqrf)|d884gemm|(?<![a-z\d])f64"
)
"""What kernels on float64 have in their names: PyTorch's the type that they are made for, those of
cuBLAS and CUTLASS their kind. A number that is passed (``optional<double>``, ``, double)``) is no
such sign: optimizers pass learning rates so."""


def is_float64(name: str) -> bool:
    """Whether a kernel of that name computes in float64."""
    return _FLOAT64.search(name) is not None


def _in_float64(kernels: StepKernels) -> Mask:
    return kernels.named(is_float64)


def _float64(facts: Facts) -> Lost | None:
    if has_gpu(facts) is False:
        return float64_on_cpu(facts)
    work = kernel_work(facts)
    found, compute = work.kernels.kept(FLOAT64.id, _in_float64), work.kernels.time
    time = found.time
    if not time:
        return None
    where = found.place.source or found.place.operator
    return Lost(
        # Half the bytes to move, and at least twice the arithmetic rate.
        work.won(time / 2),
        work.of,
        f"Kernels compute in float64 for {work.of_step(time)}"
        f"{f', most of it in {where}' if where else ''}: float32 takes half of that or less.",
        (
            Figure.share("of GPU compute in float64", time / compute, FLOAT64.limits.warning),
            *listed(found),
            work.steps,
        ),
        with_line(facts, found.place, operator_lines.or_none(facts)),
        PARTS,
        share=time / compute,
    )


FLOAT64 = Rule(
    id="float64",
    when="kernels compute in float64",
    explanation=(
        "GPUs compute float64 at 1/2 to 1/64 of the float32 rate, and move twice the bytes. It is "
        "seldom intended: NumPy arrays are float64, torch.from_numpy keeps that, and adding one "
        "float64 tensor makes the result float64. Convert where the data enters: "
        "array.astype('float32'), tensor.float(), or dtype=torch.float32."
    ),
    lost=_float64,
    limits=Limits(
        0.05,
        0.20,
        "TraceLens reports exposed time from 5 %.",
        of="of GPU compute",
    ),
    claims=Claim(kernels=is_float64),
    fixes=("default-dtype-off",),
    answer="convert to float32 where the data enters",
)
