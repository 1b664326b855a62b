"""The kind of work of a kernel, by its name.

Covers names from Volta to Blackwell of cuBLAS (``sgemm``, ``nvjet``), CUTLASS 2 and 3, cuDNN,
PyTorch, Triton and Inductor, FlashAttention, vLLM and FlashInfer, and of AMD's rocBLAS (``Cijk_``),
Composable Kernel and MIOpen.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from perftui.analysis.intervals import sums
from perftui.analysis.ops.calls import Calls
from perftui.trace.model import KERNEL, NONE, Int64, Trace


class Category(str, enum.Enum):
    """Kinds of work; the value is the word on screen."""

    GEMM = "matrix products"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    NORM = "normalisation"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    OPTIMIZER = "optimizer"
    COMMUNICATION = "communication"
    COPY = "copies"
    LAYOUT = "layout conversion"
    OTHER = "other"


MEMORY_BOUND = (Category.NORM, Category.ELEMENTWISE, Category.REDUCTION)
"""Work that moves more bytes than it computes, and can be fused with its neighbours."""

ON_TENSOR_CORES = (Category.GEMM, Category.CONVOLUTION, Category.ATTENTION)
"""Work that tensor cores can do."""

# In lower case, for names already lowered: ignoring case takes five times as long.
_PATTERNS: tuple[tuple[Category, str], ...] = (
    (
        Category.COMMUNICATION,
        r"nccl|rccl|hccl|msccl|oneccl|xccl|nvshmem|deep_?ep::|dpsk::ep|multimem_"
        r"|(one|two)_?shot_all_?reduce|cross_device_reduce|all_?reduce_fusion|custom_all_?reduce",
    ),
    (Category.OTHER, r"split_embedding|permute_pooled|embedding_bag|fbgemm"),
    (
        Category.LAYOUT,
        r"nc?hwc?to(folded)?n[ch]|foldednhwcto|nhwc2nchw|nchw2nhwc|n[ch]hw?c?addpadding"
        r"|tensortransform|batched_transpose_\d",
    ),
    (
        Category.OPTIMIZER,
        r"multi_tensor_apply|fusedoptimizer|fusedadam|fused_adam|distributed_fused_adam|adamfunctor"
        r"|lambstage|koptimizer|adam_cuda|sgd_kernel|triton_\w*(adam|foreach)",
    ),
    (
        Category.ATTENTION,
        r"flash_?(fwd|bwd|attn|attention|infer)|fmha|flashattn|attention|attn|sdpa|paged_kv"
        r"|flashinfer::(?!norm|activation|sampling)|batchprefillwith|batchdecodewith|(?<![a-z])mla_",
    ),
    (
        Category.CONVOLUTION,
        r"conv(?!ert)|scudnn|hcudnn|winograd|wino_|dgrad|wgrad|fprop|im2col|col2im"
        r"|igemm_(fwd|bwd|wrw)|implicitgemm|cudnn_infer_\w*gemm|miopen\w*conv"
        r"|cudnn::ops::scale|cask_cudnn|fft[12]d|flip_filter|gc?gemm_\d+x\d+_[nt]{2}$|cgemm",
    ),
    (Category.OTHER, r"pool(?!ed)|sort|topk|devicescan|deviceselect|argmax"),
    (
        Category.NORM,
        r"batch_?norm|layer_?norm|group_?norm|rms_?norm|instance_?norm|gammabeta|rowwisemoments"
        r"|(?<![a-z])bn_(fw|bw|fwd|bwd)|bnaddrelu|miopenbatchnorm|ln_(fwd|bwd)_|(?<![a-z])norm::"
        r"|computeinternalgradients|computefusedparams|nhwc_batch|vectorized_layer_norm",
    ),
    (
        Category.GEMM,
        r"gemm|gemv|nvjet|cutlass(?!\w*(conv|elementwise))|splitk|cijk_|matmul|(?<![a-z])mma_|_mm_"
        r"|dot_kernel|triton_tem|cublas|syrk|trsm|warpspecialized|qgmma|marlin|(?<![a-z])lstm|rnn",
    ),
    (
        Category.REDUCTION,
        r"reduce_|reduction|softmax|triton_(red|per)_|devicereduce|nll_loss|nllcriterion"
        r"|cross_entropy|lpnorm|norm_kernel",
    ),
    (
        Category.ELEMENTWISE,
        r"elementwise|triton_poi|pointwise|dropout|activation|act_and_mul|rotary|rope"
        r"|catarray|index_|embedding|gather|scatter|fill|copy_kernel|op_?tensor|relu|gelu|silu"
        r"|masked|where|upsample|threshold|distribution_|random|quant|transpose|slice|pad_|triton_",
    ),
    (Category.COPY, r"^mem(cpy|set)|copykernel|copybuffer|fillbuffer"),
)

_SEARCHES = tuple((category, re.compile(pattern)) for category, pattern in _PATTERNS)

_TELLING = 300
"""Number of leading characters that show a name's work; after them come argument types."""


@lru_cache(maxsize=8192)
def category_of(name: str) -> Category:
    """The kind of work of a kernel with that name in a trace; ``OTHER`` if unclear."""
    start = name[:_TELLING].lower()
    return next((kind for kind, pattern in _SEARCHES if pattern.search(start)), Category.OTHER)


class Precision(str, enum.Enum):
    """Data type of the factors; the value is the word on screen."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    """On the ordinary units; for attention kernels also three TF32 products for one."""
    TF32 = "TF32"
    HALF = "16 bit or less"
    UNKNOWN = "?"


_FLOAT64 = re.compile(
    r"(?<![a-z])d(gemm|gemv|syrk|trsm)|d884|<double|f64f64|Cijk_A[a-z]+_B[a-z]+_DB?_"
)
_HALF = re.compile(
    r"bf16|fp16|(?<![a-z])f16|half|bfloat16|hgemm|hcudnn|h884|h1688|16816|16832|8816|hmma|flash|e4m3|e5m2"
    r"|fp8|i8i8|s8s8|imma|qmma|int8|nvjet_(sm\d+_)?[htqo]|Cijk_A[a-z]+_B[a-z]+_(B|H|F8|I8)",
    re.IGNORECASE,
)
_TF32 = re.compile(r"tf32|s1688|nvjet_(sm\d+_)?s|xf32")
_FLOAT32 = re.compile(
    r"sgemm|scudnn|simt|ffma|<float|f32f32_f32f32|fp32|_f32_|Cijk_A[a-z]+_B[a-z]+_SB?_|(?<![a-z])f32f32",
    re.IGNORECASE,
)
_NO_PRODUCT = re.compile(
    r"gemv|gemmSN|gemmk1|splitKreduce|splitk_reduce|reduce_|depthwise|dwconv|computeB?Offsets|im2col|col2im"
    r"|scalePacked|fft1d|flip_filter|compute_dot_do_o|convert_dq|dot_kernel|(?<![a-z])[cz]gemm|gcgemm",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def precision_of(name: str) -> Precision:
    """The precision of a kernel's factors, by its name in a trace; also ``UNKNOWN`` for auxiliary
    kernels: reductions of partial sums, products with a vector, transforms."""
    if _NO_PRODUCT.search(name):
        return Precision.UNKNOWN
    kinds = (
        (Precision.FLOAT64, _FLOAT64),
        (Precision.HALF, _HALF),
        (Precision.TF32, _TF32),
        (Precision.FLOAT32, _FLOAT32),
    )
    return next((kind for kind, pattern in kinds if pattern.search(name)), Precision.UNKNOWN)


EIGHT_BITS = re.compile(
    r"e4m3|e5m2|fp8|i8i8|s8s8|imma|qmma|int8|nvjet_(sm\d+_)?[qo]", re.IGNORECASE
)
"""Parts of names of kernels whose factors have 8 bits."""


# Libraries write the instruction into the names of matrix products: cuBLAS and CUTLASS its shape
# (``h884``, ``s1688``, ``s16816``) or ``tensorop``, and ``sgemm``, ``ffma`` or ``simt`` for the
# ordinary units; Hopper's kernels have ``gmma`` or ``warpgroup`` or are cuBLAS's ``nvjet``; AMD's
# libraries write ``MI`` with the shape of the matrix instruction, ``xdl`` or ``gtcx``. The name of
# a Triton kernel shows at most that it is elementwise work or a reduction.


class TensorCores(str, enum.Enum):
    """Use of tensor cores by a kernel's name; the value is the word on screen."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "?"
    """A matrix product, or a kernel that may contain one, whose name does not show it."""
    NONE = "–"
    """Work that tensor cores do not do."""


_ORDINARY = re.compile(r"ffma|simt|gemv|splitKreduce")
_TENSOR = re.compile(
    r"(?<![a-z])[hsdibc]\d{0,2}(?:884|1688|16816|8816|16832|16864)(?!\d)"
    r"|tensorop|(?<!Sub)TensorOp|_tensor\d+x\d+|gmma|[hdiq]mma_|_warpgroup|nvjet_"
    r"|tf32|flash_(?:fwd|bwd)|_MI\d+x\d+|_xdl|_gtcx\d"
)
_PLAIN_PRODUCT = re.compile(r"(?<![a-z])g?[sdcz](?:gemm|cudnn)|gemmSN|gemmk1")
_PRODUCT = re.compile(
    r"(?<!fb)gemm|conv(?!ert)|attention|attn|fmha|wgrad|dgrad|fprop|triton_(?!poi_|red_|per_)"
    r"|cutlass|(?<!ga)mma|matmul|lstm|rnn|Cijk_",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def tensor_cores(name: str) -> TensorCores:
    """The use of tensor cores, by the name of a kernel in a trace."""
    if _ORDINARY.search(name):
        return TensorCores.NO if _PRODUCT.search(name) or "gemv" in name else TensorCores.NONE
    if _TENSOR.search(name):
        return TensorCores.YES
    if _PLAIN_PRODUCT.search(name):
        return TensorCores.NO
    return TensorCores.UNKNOWN if _PRODUCT.search(name) else TensorCores.NONE


_USES = tuple(TensorCores)


@dataclass(frozen=True, eq=False)
class TensorCoreTime:
    """Device time launched directly by groups of calls, ns, by the names of kernels."""

    used: Int64
    """Time on tensor cores."""
    unused: Int64
    """Time in products on the ordinary units."""
    unknown: Int64
    """Time in kernels that may use tensor cores, whose names do not show it."""
    own: Int64
    """Time of all kernels, including work unsuited to tensor cores."""


def tensor_core_time(trace: Trace, calls: Calls, names: Sequence[str]) -> TensorCoreTime:
    """Tensor core time of the groups ``names`` of ``calls``, which are of ``trace``."""
    linked = calls.launchers != NONE
    rows, group = calls.links.activity[linked], calls.trace.name[calls.launchers[linked]]
    use, lasting = _uses(trace, rows), trace.duration[rows]
    place = {label: number for number, label in enumerate(calls.labels)}
    wanted = np.array([place[name] for name in names], dtype=np.int64)

    def summed(*chosen: TensorCores) -> Int64:
        among = np.isin(use, [_USES.index(item) for item in chosen])
        return sums(group[among], lasting[among], len(calls.labels))[wanted]

    return TensorCoreTime(
        summed(TensorCores.YES), summed(TensorCores.NO), summed(TensorCores.UNKNOWN), summed(*_USES)
    )


def _uses(trace: Trace, rows: Int64) -> Int64:
    """Index into ``_USES`` of each of ``rows``; copies and sets use none."""
    of_name = np.full(len(trace.names), _USES.index(TensorCores.NONE), dtype=np.int64)
    kernels = rows[trace.in_category(KERNEL)[rows]]
    for number in np.unique(trace.name[kernels]).tolist():
        of_name[number] = _USES.index(tensor_cores(trace.names[number]))
    return of_name[trace.name[rows]]
