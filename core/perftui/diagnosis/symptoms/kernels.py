"""The GPU is busy, with kernels that take longer than they need to."""

from __future__ import annotations

import re

from perftui import format as fmt
from perftui.analysis.steps.parts import COMPUTE
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule
from perftui.diagnosis.symptoms.cpu_float64 import float64_on_cpu
from perftui.facts.fact import Facts
from perftui.facts.gpu import device_steps, has_gpu
from perftui.facts.kernels import kernels

_FLOAT64 = re.compile(
    r"(?<!optional)<((int|\d+(ul)?), )*(const )?double\b|\{lambda\(double\b|\bdouble( const)?\*"
    r"|(?<![a-z])d(gemm|gemv|syrk|trsm|potrf|geqrf)|d884gemm|(?<![a-z\d])f64"
)
"""What kernels on float64 have in their names: PyTorch's the type that they are made for, those of
cuBLAS and CUTLASS their kind. A number that is passed (``optional<double>``, ``, double)``) is no
such sign: optimizers pass learning rates so."""

_SHOWN = 3
"""Kernels listed."""


def is_float64(name: str) -> bool:
    """Whether a kernel of that name computes in float64."""
    return _FLOAT64.search(name) is not None


def _float64(facts: Facts) -> Lost | None:
    if has_gpu(facts) is False:
        return float64_on_cpu(facts)
    steps = device_steps(facts)
    found = kernels(steps.analysis).of(is_float64)
    compute = steps.part(COMPUTE)
    time = found.time
    if not time or not compute:
        return None
    longest = found.longest(_SHOWN)
    where = longest[0][2].source or longest[0][2].operator
    describe = fmt.part_of_step if steps.steps else fmt.part_of_trace
    return Lost(
        # Half the bytes to move, and at least twice the arithmetic rate.
        time // 2,
        steps.breakdown,
        f"Kernels compute in float64 for {describe(time, steps.step_ns)}"
        f"{f', most of it in {where}' if where else ''}: float32 takes half of that or less.",
        (
            Figure.share("of GPU compute in float64", time / compute, FLOAT64.limits.warning),
            *(Figure(name, ns, "ns", place=place) for name, ns, place in longest),
            Figure("steady steps", steps.steps, "count"),
        ),
        share=time / compute,
    )


FLOAT64 = Rule(
    id="float64",
    when="kernels compute in float64",
    explanation=(
        "GPUs compute float64 at half to a sixty-fourth of the rate of float32, and move twice the "
        "bytes. It is seldom meant: NumPy arrays are float64, and torch.from_numpy keeps that; one "
        "float64 tensor makes what it is added to float64. Convert where the data enters: "
        "array.astype('float32'), tensor.float(), or dtype=torch.float32."
    ),
    lost=_float64,
    limits=Limits(
        0.05,
        0.20,
        "From 5 % on, as TraceLens speaks of exposed time.",
        of="of GPU compute",
    ),
    claims=Claim(kernels=is_float64),
    answer="convert to float32 where the data enters",
)
