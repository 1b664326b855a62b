"""Data types and sizes that make operators slower than needed: float64, float32 and TF32, sizes
that are not multiples of eight."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from perftui.analysis.kernels.category import ON_TENSOR_CORES, Category, Precision, precision_of
from perftui.analysis.steps import BACKWARD, FORWARD, OPTIMIZER
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Claim, Limits, Lost, rule
from perftui.diagnosis.symptoms.operators.elementwise import casts
from perftui.diagnosis.symptoms.operators.work import cpu_work, kernel_work
from perftui.facts.cpu.machine import has_gpu
from perftui.facts.cpu.operators import Work, of_phases, work_of
from perftui.facts.fact import Facts, NotApplicableError, UnknownError
from perftui.facts.gpu.cards import TraceCard, trace_card
from perftui.facts.gpu.kernels import StepKernels
from perftui.facts.question import Evidence, Question
from perftui.facts.settings import settings
from perftui.facts.source.operator_lines import (
    at,
    forward_lines,
    line_of,
    line_place,
    line_with,
    made_where,
)
from perftui.facts.source.source_calls import matching_line
from perftui.trace.model import Mask

_KNOWS_TF32 = 8
"""Compute capability from which tensor cores compute TF32: Ampere."""

_FASTEST = 8.0
"""Highest assumed speedup of a product: beyond that, memory limits it."""

_USUAL_TF32, _USUAL_HALF = 2.0, 2.0
"""Speedups on an unlisted card: the least of the listed cards where it helps at all."""

_HALF_ATTENTION = 4.0
"""Speedup of float32 attention in 16 bit: on an H100 14.7 ms became 1.5 ms, and its tensor cores
have six times the rate (float32 attention computes three TF32 products for one)."""

_FASTEST_HALF = 4.0
"""Highest assumed speedup of a product in 16 bits."""

_SLOW = (Precision.FLOAT32, Precision.TF32)


def _chosen(kernels: StepKernels, precision: Precision, *categories: Category) -> StepKernels:
    group = kernels.of(*categories)
    return group.kept(precision, lambda part: part.named(lambda n: precision_of(n) is precision))


def _float32_products(facts: Facts, kernels: StepKernels) -> StepKernels:
    """Products and convolutions in float32 that TF32 would be allowed to do."""
    matmul = settings(facts).matmul
    categories = [Category.GEMM, Category.CONVOLUTION]
    if matmul.allow_tf32 or matmul.float32_precision in ("high", "medium"):
        # Products of a few elements stay on the ordinary units.
        categories.remove(Category.GEMM)
    if matmul.cudnn_allow_tf32 is not False:
        # cuDNN may use TF32 unless that is disabled: if it does not, it has a reason.
        categories.remove(Category.CONVOLUTION)
    return _chosen(kernels, Precision.FLOAT32, *categories)


def _tf32_gain(card: TraceCard) -> float:
    """Speedup of TF32 over float32 on that card; 1 without TF32."""
    if card.major < _KNOWS_TF32:
        return 1.0
    if card.peaks is None:
        return _USUAL_TF32
    return max(min(card.peaks.tf32 / card.peaks.float32, _FASTEST), 1.0)


@rule(
    when="matrix products in float32 although the card supports TF32",
    limits=Limits("As for the optimizer.", 0.10, 0.20),
    fixes=("tf32", "autocast-bf16"),
    answer=(
        'call torch.set_float32_matmul_precision("high") at the start, or use autocast to bfloat16'
    ),
)
def matmul_fp32(facts: Facts) -> Lost | None:
    """Since Ampere, tensor cores multiply float32 matrices several times faster with inputs rounded
    to 10 bits of mantissa. The cost follows from the card's peak rates, with a speed-up of eight at
    most."""
    work = kernel_work(facts)
    products = _float32_products(facts, work.kernels)
    gain = _tf32_gain(trace_card(facts))
    time = products.time
    if not time or gain == 1:
        return None
    share = work.won(time) / work.of.mean
    # A user who sets it has decided it.
    set_at = settings(facts).place("set_float32_matmul_precision", "matmul.allow_tf32")
    lost = work.lost(
        products,
        time * (1 - 1 / gain),
        f"The GPU multiplies float32 matrices for {work.of_step(time)} without its tensor cores: "
        f"TF32, {gain:.0f} times as fast here, is off.",
        Figure.share("in float32 products", share, matmul_fp32.limits.warning, products.place),
        lines=forward_lines,
        share=share,
    )
    return replace(lost, place=set_at or made_where(facts, lost.place or products.place))


@rule(
    when="matrix products, convolutions or attention in float32 or TF32 where 16 bits would do",
    limits=Limits(
        "TensorBoard reports a training that uses none.", 0.20, 0.40, of="of GPU compute"
    ),
    fixes=("autocast-bf16",),
    answer='run the forward pass and the loss under torch.autocast("cuda", dtype=torch.bfloat16)',
)
def tensor_cores_unused(facts: Facts) -> Lost | None:
    """Tensor cores compute bfloat16 at twice the rate of TF32 and up to sixteen times that of
    float32. Cards before Ampere need float16 with a GradScaler. The cost follows from the card's
    peak rates, with a speed-up of four at most."""
    work = kernel_work(facts)
    card = trace_card(facts)
    eligible = work.kernels.of(*ON_TENSOR_CORES)
    # The rule above reports those.
    others = _float32_products(facts, eligible) if _tf32_gain(card) > 1 else None

    def slow(kernels: StepKernels) -> Mask:
        chosen = kernels.named(lambda name: precision_of(name) in _SLOW)
        return chosen if others is None else chosen & ~np.isin(kernels.rows, others.rows)

    wide = eligible.kept((tensor_cores_unused.id, others), slow)
    time, busy = wide.time, work.kernels.time
    if not time:
        return None
    what = " and ".join(kind.value for kind in ON_TENSOR_CORES if len(wide.of(kind)))
    how = " and ".join(kind.value for kind in _SLOW if len(_chosen(wide, kind, *ON_TENSOR_CORES)))
    return work.lost(
        wide,
        _saved(wide, card),
        f"The GPU spends {work.of_step(time)} on {what} in {how}, where 16 bits would do.",
        Figure.share("of GPU compute", time / busy, tensor_cores_unused.limits.warning),
        lines=forward_lines,
        share=work.won(time) / busy,
    )


def _saved(kernels: StepKernels, card: TraceCard) -> float:
    """Time that 16 bits would save of those kernels, ns per step."""
    peaks = card.peaks
    tf32 = min(peaks.half / peaks.tf32, _FASTEST_HALF) if peaks and peaks.tf32 else _USUAL_HALF
    float32 = min(peaks.half / peaks.float32, _FASTEST_HALF) if peaks else _USUAL_HALF
    products = (Category.GEMM, Category.CONVOLUTION)
    parts = (
        (_chosen(kernels, Precision.TF32, *ON_TENSOR_CORES), tf32),
        (_chosen(kernels, Precision.FLOAT32, *products), float32),
        (_chosen(kernels, Precision.FLOAT32, Category.ATTENTION), _HALF_ATTENTION),
    )
    return sum(part.time * (1 - 1 / max(gain, 1.0)) for part, gain in parts)


_NAMES = frozenset({"double", "float64", "DoubleTensor"})

_ADOPTING = (r"\.to\([^)]*\bdtype\b", r"\b(from_numpy|as_tensor)\(")
"""Text that adopts the data type of something else: NumPy's is float64."""


def float64_on_cpu(facts: Facts) -> Lost | None:
    """Time of a model with float64 parameters: at least half of it is lost. Unknown if the data
    types of its parameters were not recorded."""
    cpu, parameters = cpu_work(facts), settings(facts).parameters
    if parameters is None:
        raise UnknownError("the data types of the parameters were not recorded")
    elements = sum(group.elements for group in parameters)
    double = sum(group.elements for group in parameters if group.dtype == "float64")
    if not double:
        return None
    share = double / max(elements, 1)
    time = cpu.time_of(of_phases(cpu.operators, FORWARD, BACKWARD, OPTIMIZER))
    adopting = (matching_line(facts, pattern, only=True) for pattern in _ADOPTING)
    line = line_with(facts, _NAMES) or next(filter(None, adopting), None) or line_of(facts, FORWARD)
    taken = round(share * time.ns)
    return Lost(
        # Half the bytes to move, and twice as many numbers in a register.
        taken // 2,
        cpu.of,
        f"Operators compute in float64 for {cpu.of.part_of(taken)}{at(line)}: "
        "float32 takes half of that or less.",
        (Figure.share("of the parameters' elements in float64", share),),
        place=line_place(facts, line),
        parts=time.parts,
        # Matrices are hardly decomposed in float64 by accident: float32 may lose definiteness.
        worst=Severity.INFO if cpu.operators.named(_DECOMPOSES.match).any() else Severity.CRITICAL,
    )


_DECOMPOSES = re.compile(r"aten::(linalg_)?(cholesky|eigh|ldl|lu_factor|solve)")

_COMPUTES = {
    "bfloat16": {"avx512_bf16", "amx_bf16", "bf16"},
    "float16": {"avx512_fp16", "amx_fp16", "asimdhp"},
}
"""Features of processors that compute with numbers of that type, in matrix products."""

_BF16_ISA = re.compile(r"BF16|AMX|FP16|AVX10|AVX2_VNNI_2|DEFAULT|ALL")
"""Values of ONEDNN_MAX_CPU_ISA that leave such instructions in use."""

_EMULATED = 0.5
"""Share of products that float32 would save: with conversions before and after each they took twice
as long with AVX-512, and 13 times as long without."""

_PRODUCT = re.compile(r"aten::(addmm|mm|bmm|baddbmm|(mkldnn_|slow_|thnn_)?conv\w*|lstm|gru)$")


@rule(
    when="a CPU computes in bfloat16 or float16 without instructions for that",
    limits=Limits(),
    answer="leave out autocast and .bfloat16() on this CPU",
)
def emulated_precision(facts: Facts) -> Lost | None:
    """Processors without AVX512-BF16 or AMX convert each operand to float32 and back: 2 to 15 times
    as slow as float32. The cost is at least that of the conversions and half of the products."""
    if facts.run is None:
        raise NotApplicableError
    cpu, setup = cpu_work(facts), settings(facts)
    if setup.processor is None:
        raise UnknownError("what the processor can compute was not recorded")
    # Of autocast, else of most parameters.
    largest = max(setup.parameters or (), key=lambda group: group.elements, default=None)
    dtype = (setup.autocast or {}).get("cpu", largest.dtype if largest else "")
    isa = (setup.environment or {}).get("ONEDNN_MAX_CPU_ISA", "DEFAULT").upper()
    if dtype in _COMPUTES and not _COMPUTES[dtype].intersection(setup.processor):
        why = "this processor has no instructions for that"
    elif dtype in _COMPUTES and not _BF16_ISA.search(isa):
        why = f"ONEDNN_MAX_CPU_ISA={isa} leaves out its instructions for that"
    else:
        return None
    ops, cast = cpu.operators, casts(facts).by_phase
    products = work_of(ops, ops.within(ops.named(_PRODUCT.match)), ops.named(_PRODUCT.match))
    asks = setup.place("autocast") if setup.autocast else None
    asked = f" (autocast at {asks.short})" if asks else ""
    time = cpu.time_of(Work(cast + products.by_phase, products.calls))
    lost = cpu.lost(
        Work((cast + products.by_phase * _EMULATED).astype(np.int64), products.calls),
        line_of(facts, FORWARD),
        f"Products in {dtype}{asked} and the conversions for them take "
        f"{cpu.of.part_of(time.ns)}{{at}}: {why}, so they are emulated.",
        "lost to emulation",
        Figure("type", dtype),
        Figure("products in a step", products.calls, "count"),
    )
    return replace(lost, is_least=True)


_FLOAT64 = re.compile(
    r"(?<!optional)<((int|\d+(ul)?), )*(const )?double\b|\{lambda\(double\b|\bdouble( const)?\*"
    r"|(?<![a-z])d(gemm|gemv|syrk|trsm|potrf|geqrf)|d884gemm|(?<![a-z\d])f64"
)
"""Part of names of float64 kernels: PyTorch's have the type as a template argument, those of cuBLAS
and CUTLASS their kind. A passed number (``optional<double>``, ``, double)``) is no such sign:
optimizers pass learning rates like that."""


@rule(
    when="kernels compute in float64",
    limits=Limits(of="of GPU compute"),
    claims=Claim(kernels=_FLOAT64.search),
    fixes=("default-dtype-off",),
    answer='convert to float32 where the data enters: array.astype("float32") or tensor.float()',
)
def float64(facts: Facts) -> Lost | None:
    """GPUs compute float64 at 1/2 to 1/64 of the float32 rate. NumPy arrays are float64,
    torch.from_numpy keeps that, and one float64 tensor makes the result float64."""
    if has_gpu(facts) is False:
        return float64_on_cpu(facts)
    work = kernel_work(facts)
    double = work.kernels.kept(float64.id, lambda every: every.named(_FLOAT64.search))
    time, compute = double.time, work.kernels.time
    if not time:
        return None
    where = double.place.source or double.place.operator
    return work.lost(
        double,
        # Half the bytes to move, and at least twice the arithmetic rate.
        time / 2,
        f"Kernels compute in float64 for {work.of_step(time)}"
        f"{f', most of it in {where}' if where else ''}: float32 takes half of that or less.",
        Figure.share("of GPU compute in float64", time / compute, float64.limits.warning),
        share=time / compute,
    )


_MISALIGNED = re.compile(r"align[ac]?[124](?!\d)")
"""Part of names of kernels that load fewer than eight elements at once."""

_SAVED = 1 / 3
"""Share saved of such a kernel: NVIDIA's guide to matrix multiplication shows products of 16 bits
one and a half to several times as fast with sizes that are multiples of eight."""


def _are_misaligned(products: StepKernels) -> Mask:
    """Misaligned products, except those of convolutions, whose sizes are the image's."""
    half = products.named(lambda name: precision_of(name) is Precision.HALF)
    return (
        half & products.named(_MISALIGNED.search) & ~products.called_by(lambda name: "conv" in name)
    )


@rule(
    when="16-bit matrix products with sizes that are not multiples of eight",
    limits=Limits(),
    answer="pad vocabulary, hidden and batch sizes to multiples of 8, ideally of 64",
)
def misaligned_dims(facts: Facts) -> Lost | None:
    """Tensor cores load eight 16-bit numbers at once; for other sizes cuBLAS uses a slower kernel.
    The cost is a third of those kernels' time."""
    work = kernel_work(facts)
    gemms = work.kernels.of(Category.GEMM).kept(misaligned_dims.id, _are_misaligned)
    if not gemms.time:
        return None
    sizes = _sizes(gemms)
    lost = work.lost(
        gemms,
        gemms.time * _SAVED,
        f"16-bit matrix products take {work.of_step(gemms.time)} in kernels for sizes that are not "
        f"multiples of eight{f', such as those of {sizes}' if sizes else ''}.",
        Figure("kernels a step", gemms.count, "count"),
        lines=forward_lines,
    )
    if sizes:
        return lost
    about = "which sizes are not multiples of eight"
    return replace(lost, question=Question(Evidence.SHAPES, about, lost.part))


def _sizes(kernels: StepKernels) -> str:
    """Input sizes of the longest kernel; empty if not recorded."""
    row = int(kernels.operator[kernels.rows == kernels.place.trace_row][0])
    sizes = kernels.analysis.trace.read_arguments(row).get("Input Dims") if row >= 0 else None
    if not isinstance(sizes, list):
        return ""
    return " and ".join("x".join(map(str, size)) for size in sizes if size)
