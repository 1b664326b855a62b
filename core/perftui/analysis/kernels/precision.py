"""In which precision a matrix product, convolution or attention computes, by its kernel's name."""

from __future__ import annotations

import enum
import re
from functools import lru_cache


class Precision(str, enum.Enum):
    """Data type of the factors; the value is the word on screen."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    """On the ordinary units; of attention kernels also three TF32 products for one."""
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
    """The precision of a kernel's factors by its name in a trace; ``UNKNOWN`` too of what
    only serves a product: reductions of partial sums, products with a vector, transforms."""
    if _NO_PRODUCT.search(name):
        return Precision.UNKNOWN
    kinds = (
        (Precision.FLOAT64, _FLOAT64),
        (Precision.HALF, _HALF),
        (Precision.TF32, _TF32),
        (Precision.FLOAT32, _FLOAT32),
    )
    return next((kind for kind, found in kinds if found.search(name)), Precision.UNKNOWN)


_EIGHT_BITS = re.compile(
    r"e4m3|e5m2|fp8|i8i8|s8s8|imma|qmma|int8|nvjet_(sm\d+_)?[qo]", re.IGNORECASE
)


def is_8_bit(name: str) -> bool:
    """Whether a kernel's factors have 8 bits, by its name in a trace."""
    return _EIGHT_BITS.search(name) is not None
