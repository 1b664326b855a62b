"""What kind of work a kernel does, as its name tells.

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

_PATTERNS: tuple[tuple[Category, str], ...] = (
    (
        Category.COMMUNICATION,
        r"nccl|rccl|hccl|msccl|oneccl|xccl|nvshmem|deep_?ep::|dpsk::ep|multimem_"
        r"|(one|two)_?shot_all_?reduce|cross_device_reduce|all_?reduce_fusion|custom_all_?reduce",
    ),
    (Category.OTHER, r"split_embedding|permute_pooled|embedding_bag|fbgemm"),
    (
        Category.LAYOUT,
        r"nc?hwc?to(folded)?n[ch]|foldedNhwcTo|nhwc2nchw|nchw2nhwc|n[ch]hw?c?AddPadding"
        r"|tensorTransform|batched_transpose_\d",
    ),
    (
        Category.OPTIMIZER,
        r"multi_tensor_apply|FusedOptimizer|FusedAdam|fused_adam|distributed_fused_adam|AdamFunctor"
        r"|LAMBStage|kOptimizer|adam_cuda|sgd_kernel|triton_\w*(adam|foreach)",
    ),
    (
        Category.ATTENTION,
        r"flash_?(fwd|bwd|attn|attention|infer)|fmha|FlashAttn|attention|attn|sdpa|paged_kv"
        r"|flashinfer::(?!norm|activation|sampling)|BatchPrefillWith|BatchDecodeWith"
        r"|device_kernelI\w*[Ff]lash|(?<![a-z])mla_",
    ),
    (
        Category.CONVOLUTION,
        r"conv(?!ert)(?!erT)|scudnn|hcudnn|winograd|wino_|dgrad|wgrad|fprop|im2col|col2im"
        r"|igemm_(fwd|bwd|wrw)|implicitgemm|cudnn_infer_\w*gemm|miopen\w*conv"
        r"|cudnn::ops::scale|cask_cudnn|fft[12]d|flip_filter|gc?gemm_\d+x\d+_[nt]{2}$|cgemm",
    ),
    (Category.OTHER, r"pool(?!ed)|sort|topk|DeviceScan|DeviceSelect|argmax"),
    (
        Category.NORM,
        r"batch_?norm|layer_?norm|group_?norm|rms_?norm|instance_?norm|GammaBeta|RowwiseMoments"
        r"|(?<![a-z])bn_(fw|bw|fwd|bwd)|bnAddRelu|MIOpenBatchNorm|ln_(fwd|bwd)_|rmsnorm|(?<![a-z])norm::"
        r"|ComputeInternalGradients|ComputeFusedParams|nhwc_batch|vectorized_layer_norm",
    ),
    (
        Category.GEMM,
        r"gemm|gemv|nvjet|cutlass(?!\w*(conv|elementwise))|splitK|Cijk_|matmul|(?<![a-z])mma_|_mm_"
        r"|dot_kernel|triton_tem|cublas|syrk|trsm|warpspecialized|qgmma|marlin|(?<![a-z])lstm|rnn_|RNN",
    ),
    (
        Category.REDUCTION,
        r"reduce_|reduction|softmax|triton_(red|per)_|DeviceReduce|nll_loss|NLLCriterion"
        r"|cross_entropy|LpNorm|norm_kernel",
    ),
    (
        Category.ELEMENTWISE,
        r"elementwise|triton_poi|pointwise|Pointwise|dropout|activation|act_and_mul|rotary|rope"
        r"|CatArray|index_|embedding|gather|scatter|fill|copy_kernel|op_tensor|OpTensor|relu|gelu|silu"
        r"|masked|where|upsample|threshold|distribution_|random|quant|transpose|slice|pad_|triton_",
    ),
    (Category.COPY, r"^Mem(cpy|set)|CopyKernel|copyBuffer|fillBuffer"),
)

_SEARCHES = tuple((category, re.compile(pattern, re.IGNORECASE)) for category, pattern in _PATTERNS)


@lru_cache(maxsize=8192)
def category_of(name: str) -> Category:
    """What the kernel of that name, as a trace has it, does; ``OTHER`` where it does not tell."""
    return next((kind for kind, pattern in _SEARCHES if pattern.search(name)), Category.OTHER)
