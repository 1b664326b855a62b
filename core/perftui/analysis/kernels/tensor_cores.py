"""Whether a kernel computes on tensor cores, as far as its name shows.

Libraries write the instruction into the names of matrix products: cuBLAS and CUTLASS its shape
(``h884``, ``s1688``, ``s16816``) or ``tensorop``, and ``sgemm``, ``ffma`` or ``simt`` where the
ordinary units do the work; Hopper's kernels have ``gmma`` or ``warpgroup`` or are cuBLAS's
``nvjet``; AMD's libraries write ``MI`` with the shape of the matrix instruction, ``xdl`` or
``gtcx``. The name of a Triton kernel shows at most that it is elementwise work or a reduction.
"""

from __future__ import annotations

import enum
import re
from functools import lru_cache


class TensorCores(str, enum.Enum):
    """Use of tensor cores by a kernel's name; the value is the word on screen."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "?"
    """A matrix product, or a kernel that may hold one, whose name does not show it."""
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
    """The use of tensor cores by the name of a kernel, as a trace has it."""
    if _ORDINARY.search(name):
        return TensorCores.NO if _PRODUCT.search(name) or "gemv" in name else TensorCores.NONE
    if _TENSOR.search(name):
        return TensorCores.YES
    if _PLAIN_PRODUCT.search(name):
        return TensorCores.NO
    return TensorCores.UNKNOWN if _PRODUCT.search(name) else TensorCores.NONE
