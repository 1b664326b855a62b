"""What kind of work a kernel does, by its name.

Names from Volta to Blackwell of cuBLAS (``sgemm``, ``nvjet``), CUTLASS 2 and 3, cuDNN, PyTorch,
Triton and Inductor, FlashAttention, vLLM and FlashInfer, and of AMD's rocBLAS (``Cijk_``),
Composable Kernel and MIOpen.
"""

from __future__ import annotations

import enum
import re
from functools import lru_cache


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
"""What moves more bytes than it computes, and can be fused with its neighbours."""

ON_TENSOR_CORES = (Category.GEMM, Category.CONVOLUTION, Category.ATTENTION)
"""What tensor cores can do."""

# In small letters, as the names are made before: ignoring case takes five times as long.
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
"""Characters in which a name shows what it does; what follows are types of arguments."""


@lru_cache(maxsize=8192)
def category_of(name: str) -> Category:
    """What the kernel of that name, as a trace has it, does; ``OTHER`` where it does not show."""
    start = name[:_TELLING].lower()
    return next((kind for kind, pattern in _SEARCHES if pattern.search(start)), Category.OTHER)
