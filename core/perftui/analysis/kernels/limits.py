"""Peak rates of cards and of the links between them, and the arithmetic and bytes of an operator
call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any, TypeVar

from perftui.analysis.kernels.category import Precision

# Dense rates from NVIDIA's data sheets and whitepapers of each card (those of Hopper, Ada and
# Blackwell list the double, for sparse matrices), with sums in float32; GeForce halves them then.
# AMD's are of its data sheets for matrix instructions; a MI250X is two devices, each listed here.


@dataclass(frozen=True)
class Card:
    """Peaks of one device."""

    float32: float
    """TFLOP/s of the ordinary units; of the matrix units on AMD's cards."""
    tf32: float
    """TFLOP/s of tensor cores; 0 if they do not support it."""
    half: float
    """TFLOP/s in float16, and in bfloat16 from compute capability 8."""
    bandwidth: float
    """GB/s of the memory."""

    def rate(self, precision: Precision) -> float:
        """TFLOP/s in that precision; 0 if unknown."""
        rates = {
            Precision.FLOAT32: self.float32,
            Precision.TF32: self.tf32,
            Precision.HALF: self.half,
        }
        return rates.get(precision, 0.0)


_CARDS: tuple[tuple[str, Card], ...] = (
    ("G?B[23]00", Card(75, 1125, 2250, 8000)),
    ("GH200", Card(67, 494.7, 989.4, 4000)),
    ("H200", Card(67, 494.7, 989.4, 4800)),
    ("H100 NVL", Card(60, 417.5, 835.5, 3938)),
    ("H100 PCIe", Card(51.2, 378, 756, 2039)),
    ("H[18]00", Card(67, 494.7, 989.4, 3350)),
    ("H20", Card(44, 74, 148, 4000)),
    ("A100.*PCI.*80|A[18]00 80.*PCI", Card(19.5, 156, 312, 1935)),
    ("A[18]00.*80", Card(19.5, 156, 312, 2039)),
    ("A100", Card(19.5, 156, 312, 1555)),
    ("A30", Card(10.3, 82, 165, 933)),
    ("A40", Card(37.4, 74.8, 149.7, 696)),
    ("A6000", Card(38.7, 77.4, 154.8, 768)),
    ("A5000", Card(27.8, 55.6, 111.1, 768)),
    ("A4000", Card(19.2, 38.4, 76.7, 448)),
    ("RTX 6000 Ada", Card(91.1, 182.1, 364.2, 960)),
    ("A10G", Card(35, 35, 70, 600)),
    ("A10", Card(31.2, 62.5, 125, 600)),
    ("L40S", Card(91.6, 183, 362, 864)),
    ("L40", Card(90.5, 90.5, 181, 864)),
    ("L4", Card(30.3, 60, 121, 300)),
    ("V100", Card(15.7, 0, 125, 900)),
    ("T4", Card(8.1, 0, 65, 320)),
    ("RTX 5090", Card(104.8, 104.8, 209.5, 1792)),
    ("RTX 5080", Card(56.3, 56.3, 112.6, 960)),
    ("RTX 4090", Card(82.6, 82.6, 165.2, 1008)),
    ("RTX 4080", Card(48.7, 48.7, 97.5, 717)),
    ("RTX 4070", Card(29.1, 29.1, 58.3, 504)),
    ("RTX 4060", Card(15.1, 15.1, 30.3, 272)),
    ("RTX 3090", Card(35.6, 35.6, 71, 936)),
    ("RTX 3080", Card(29.8, 29.8, 59.5, 760)),
    ("RTX 3070", Card(20.3, 20.3, 40.6, 448)),
    ("RTX 3060", Card(12.7, 12.7, 25.5, 360)),
    ("RTX 2080 Ti", Card(13.4, 0, 53.8, 616)),
    ("MI325X", Card(163.4, 653.7, 1307.4, 6000)),
    ("MI300X", Card(163.4, 653.7, 1307.4, 5300)),
    ("MI250", Card(47.9, 0, 191.5, 1638)),
    ("MI210", Card(45.3, 0, 181, 1638)),
)

_Listed = TypeVar("_Listed")


def _first_of(listed: Iterable[tuple[str, _Listed]], name: str) -> _Listed | None:
    patterns = ((rf"(?<![A-Z0-9])({pattern})(?![0-9])", item) for pattern, item in listed)
    return next((item for pattern, item in patterns if re.search(pattern, name)), None)


@lru_cache
def card_of(name: str) -> Card | None:
    """The card with that reported name; None if not listed."""
    return _first_of(_CARDS, name)


@dataclass(frozen=True)
class CardLink:
    """The link by which a card sends to another in the same machine."""

    name: str
    """``NVLink``, ``PCIe 4`` and the like."""
    rate: float
    """GB/s each way."""


_NVLINK = "NVLink"
_LINKS: tuple[tuple[str, CardLink], ...] = (
    ("T4|V100.*PCI", CardLink("PCIe 3", 16)),
    ("H100 PCIe|RTX 50[789]0|RTX PRO 6000", CardLink("PCIe 5", 64)),
    ("A10G?|L4|L40S?|RTX 40[6789]0", CardLink("PCIe 4", 32)),
    ("B200", CardLink(_NVLINK, 900)),
    ("H200(?! NVL)|H100 80GB HBM3|H100 SXM", CardLink(_NVLINK, 450)),
    (r"A100.SXM\d", CardLink(_NVLINK, 300)),
    (r"V100.SXM\d", CardLink(_NVLINK, 150)),
)
"""From NVIDIA's data sheets, which add up both ways. Cards that a bridge may join are left out."""


@lru_cache
def link_of(card: str) -> CardLink | None:
    """The link of the card with that reported name; None if not listed."""
    return _first_of(_LINKS, card)


_TYPES = {
    8: ("double", "long int", "long", "c10::complex<float>"),
    4: ("float", "int"),
    2: ("c10::BFloat16", "c10::Half", "half", "short int"),
    1: ("bool", "unsigned char", "signed char", "c10::Float8_e4m3fn", "c10::Float8_e5m2"),
}
_WIDTHS = {kind: width for width, kinds in _TYPES.items() for kind in kinds}
"""Bytes of an element by the name of its data type, as Kineto writes it."""


@dataclass(frozen=True)
class Tensor:
    """One argument of a call; a non-tensor has no bytes."""

    elements: int
    width: int
    """Bytes of an element; 0 if the data type is unknown."""
    stored: int
    """Most bytes in memory: an expanded side is stored once."""

    @classmethod
    def of(cls, sides: Sequence[int], strides: object, kind: str) -> Tensor:
        """A tensor from its sizes, strides and data type."""
        width = _WIDTHS.get(kind, 0)
        elements = there = prod(sides)
        if elements and isinstance(strides, list) and len(strides) == len(sides):
            steps = list(zip(sides, strides, strict=True))
            once = prod(side for side, step in steps if step != 0)
            # Overlapping windows reach no further than their last element.
            there = min(once, 1 + sum((side - 1) * step for side, step in steps))
        return cls(elements, width, there * width)


def bytes_moved(operator: str, arguments: Sequence[Tensor], texts: Sequence[str]) -> int:
    """Least bytes read and written by a call with these arguments (at least one) and values; 0 if
    unknown.

    Unlisted operators are unknown: a lookup reads what its indices select, which is not recorded.
    Arguments written to come after those read.
    """
    name = operator.removeprefix("aten::")
    first = arguments[0]
    if _FUSED.match(name):
        return sum(tensor.stored for tensor in arguments)
    if name in _WRITING:
        return first.elements * first.width
    if name == "copy_":
        return first.elements * first.width + sum(tensor.stored for tensor in arguments[1:2])
    if name in _REDUCING:
        return first.stored
    plain = name.removesuffix("_")
    if plain not in _READ:
        return 0
    read = arguments[: _READ[plain]]
    written = first if plain != name else max(read, key=lambda arg: arg.elements * arg.width)
    width = 1 if name in _COMPARING else written.width
    times = 2 if name in _TRAINS and texts[_TRAINS[name] :][:1] != ["False"] else 1
    return times * sum(tensor.stored for tensor in read) + written.elements * width


_FUSED = re.compile(
    r"triton_(poi|red|per)_(?!\w*(embed|index|gather|scatter|select|slice|split|nll|unfold))"
)
"""Kernels of torch.compile that read or write each of their arguments once; those that may take
only a part of one are unknown."""

_WRITING = frozenset({"fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_"})
"""Operators that write their first input and read nothing that counts."""

_REDUCING = frozenset(
    {
        *("sum", "mean", "prod", "max", "min", "amax", "amin", "argmax", "argmin", "any", "all"),
        *("norm", "linalg_vector_norm", "var", "std", "var_mean", "logsumexp"),
        "max_pool2d_with_indices",
    }
)
"""Operators whose output may be tiny."""

_COMPARING = frozenset({"gt", "lt", "ge", "le", "eq", "ne"})
"""Operators that write a byte for each element."""

_ONE = (
    *("square", "sqrt", "rsqrt", "reciprocal", "exp", "log", "neg", "abs", "sin", "cos", "erf"),
    *("sigmoid", "tanh", "relu", "gelu", "silu", "mish", "elu", "hardtanh", "hardswish"),
    *("hardsigmoid", "leaky_relu", "softplus", "clamp", "clamp_min", "clamp_max"),
    *("log1p", "log2", "exp2", "expm1", "erfinv", "floor", "ceil", "round", "sign"),
    *("logical_not", "bitwise_not", "native_dropout", "_softmax", "_log_softmax"),
    *("native_layer_norm", "native_group_norm", "native_batch_norm", "cudnn_batch_norm"),
    "_fused_rms_norm",
)
_TWO = (
    *("add", "sub", "rsub", "mul", "div", "pow", "masked_fill", *_COMPARING),
    *("maximum", "minimum", "remainder", "fmod", "atan2", "mse_loss", "huber_loss"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or"),
    *("threshold_backward", "gelu_backward", "silu_backward", "sigmoid_backward"),
    *("tanh_backward", "mish_backward", "hardtanh_backward", "hardswish_backward"),
    *("hardsigmoid_backward", "leaky_relu_backward", "native_dropout_backward"),
    *("_softmax_backward_data", "_log_softmax_backward_data", "native_layer_norm_backward"),
    *("native_batch_norm_backward", "cudnn_batch_norm_backward", "native_group_norm_backward"),
    *("_fused_rms_norm_backward", "glu_backward", "elu_backward", "softplus_backward"),
)
_THREE = ("addcmul", "addcdiv", "lerp", "where", "mse_loss_backward", "huber_loss_backward")
_READ = {name: count for count, names in enumerate((_ONE, _TWO, _THREE), 1) for name in names}
"""Number of first arguments that an operator reads, at least once; it writes as many elements as
the largest of those has. Weights and statistics of a normalization are negligible beside its
input."""


_TRAINS = {
    **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm"), 5),
    **dict.fromkeys(("native_batch_norm_backward", "cudnn_batch_norm_backward"), 7),
}
"""Operators that read the whole batch for sums that its first element needs, and then again, and
which input says that they only use old sums."""


# A multiplication and an addition count as two operations, as in the rates of cards. Bytes count
# each input and the output once: what a perfect kernel would move.

Sizes = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Work:
    """Least work of one call."""

    flops: int
    """Operations of matrix products, convolutions and attention; 0 for other operators."""
    bytes: int
    """0 if the sizes do not show it, for example for operators that look up some of their input."""


def work_of(operator: str, arguments: Mapping[str, Any]) -> Work | None:
    """The work of a call with these event arguments; None without sizes."""
    sizes = arguments.get("Input Dims", arguments.get("Input dims"))
    kinds = arguments.get("Input type", arguments.get("Input Types"))
    if not isinstance(sizes, list) or not isinstance(kinds, list):
        return None
    sizes = [
        size if isinstance(size, list) and all(isinstance(side, int) for side in size) else []
        for size in sizes
    ]
    strides = arguments.get("Input Strides")
    if not isinstance(strides, list) or len(strides) != len(sizes):
        strides = [None] * len(sizes)
    inputs = zip(sizes, strides, kinds, strict=False)
    tensors = [Tensor.of(size, step, str(kind)) for size, step, kind in inputs]
    if not any(sizes[: len(kinds)]):
        return None
    flops_of = _FLOPS.get(operator)
    texts = arguments.get("Concrete Inputs")
    texts = [str(text) for text in texts] if isinstance(texts, list) else []
    if flops_of is None:
        return Work(0, bytes_moved(operator, tensors, texts))
    width = next((tensor.width for tensor in tensors if tensor.width), 0)
    try:
        flops, output = flops_of(sizes, texts)
    except (IndexError, ValueError, ZeroDivisionError):
        return None
    return Work(flops, sum(tensor.stored for tensor in tensors) + output * width)


def _product(first: int, sizes: Sizes, _: Sequence[str]) -> tuple[int, int]:
    """The product of two matrices, or batches of them: inputs ``first`` and the next."""
    left, right = sizes[first], sizes[first + 1]
    output = prod(left[:-1]) * (right[-1] if len(right) > 1 else 1)
    return 2 * output * left[-1], output


def _convolution_backward(sizes: Sizes, texts: Sequence[str]) -> tuple[int, int]:
    gradient, inputs, weight = sizes[:3]
    wanted = texts[10].count("True", 0, texts[10].rfind(",")) if len(texts) > 10 else 2
    # In a transposed convolution the input is the smaller side.
    side = inputs if texts[7:8] == ["True"] else gradient
    single = 2 * side[0] * prod(side[2:]) * prod(weight)
    return wanted * single, prod(inputs) + prod(weight)


def _convolution(of: Sequence[int], sizes: Sizes, texts: Sequence[str]) -> tuple[int, int]:
    """A forward convolution, whose padding, stride and dilation are the inputs ``of``."""
    inputs, weight = sizes[:2]
    numbers = [_numbers(texts[at], len(weight) - 2) for at in of]
    sides = [
        (length + 2 * pad - space * (window - 1) - 1) // step + 1
        for length, window, pad, step, space in zip(inputs[2:], weight[2:], *numbers, strict=True)
    ]
    spots = inputs[0] * prod(sides)
    return 2 * spots * prod(weight), spots * weight[0]


def _numbers(text: str, count: int) -> list[int]:
    """Parse ``[1, 2]`` as integers; a single one is repeated ``count`` times."""
    numbers = [int(part) for part in text.strip("[]").split(",")]
    return numbers * count if len(numbers) == 1 else numbers


def _attention(
    query: int, length: int, packed: int, causal: int, sizes: Sizes, texts: Sequence[str]
) -> tuple[int, int]:
    """Attention over (batch, ., ., width) tensors from input ``query`` on, with the positions on
    side ``length``; if input ``causal`` is true, half of the pairs are left out. With an input
    ``packed``, the bounds of sequences in one row, the pairs are not known. In the backward pass
    the gradient of the output comes before the query."""
    left, right = sizes[query], sizes[query + 1]
    if len(left) != 4 or any(map(any, sizes[packed : packed + 1])):
        raise ValueError("packed sequences")
    # Backward the two products of the forward pass, partly repeated, and those of three gradients.
    products = 5 if query else 2
    flops = 2 * products * prod(left) * right[length]
    is_causal = texts[causal : causal + 1] in (["True"], ["1"], ["2"])
    return flops // 2 if is_causal else flops, prod(left)


_FLOPS: Mapping[str, Callable[[Sizes, Sequence[str]], tuple[int, int]]] = {
    **dict.fromkeys(("aten::mm", "aten::bmm"), partial(_product, 0)),
    **dict.fromkeys(
        ("aten::addmm", "aten::baddbmm", "aten::_addmm_activation"), partial(_product, 1)
    ),
    "aten::cudnn_convolution": partial(_convolution, (2, 3, 4)),
    "aten::miopen_convolution": partial(_convolution, (3, 4, 5)),
    "aten::mkldnn_convolution": partial(_convolution, (3, 4, 5)),
    "aten::_conv_depthwise2d": partial(_convolution, (5, 4, 6)),
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": partial(_attention, 0, 2, 3, 4),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": partial(_attention, 1, 2, 6, 7),
    "aten::_cudnn_attention_forward": partial(_attention, 0, 2, 4, 10),
    "aten::_cudnn_attention_backward": partial(_attention, 1, 2, 9, 14),
    "aten::_flash_attention_forward": partial(_attention, 0, 1, 3, 8),
    "aten::_flash_attention_backward": partial(_attention, 1, 1, 6, 11),
    "aten::_efficient_attention_forward": partial(_attention, 0, 1, 4, 9),
    "aten::_efficient_attention_backward": partial(_attention, 1, 1, 6, 14),
}
"""By operator: operations, and elements of the output."""
