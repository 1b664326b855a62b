"""Bytes that operators without matrix arithmetic have to move, by the sizes of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

_WIDTHS = {
    "double": 8,
    "long int": 8,
    "long": 8,
    "c10::complex<float>": 8,
    "float": 4,
    "int": 4,
    "c10::BFloat16": 2,
    "c10::Half": 2,
    "half": 2,
    "short int": 2,
    "bool": 1,
    "unsigned char": 1,
    "signed char": 1,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
}
"""Bytes of an element by the name of its data type, as Kineto writes it."""


@dataclass(frozen=True)
class Tensor:
    """One argument of a call; one that is no tensor has no bytes."""

    elements: int
    width: int
    """Bytes of an element; 0 where its data type is not known."""
    stored: int
    """Bytes that it has in memory at most: a side that was expanded is there once."""

    @classmethod
    def of(cls, sides: Sequence[int], strides: object, kind: str) -> Tensor:
        """A tensor by its sides, the steps between elements along each, and its data type."""
        width = _WIDTHS.get(kind, 0)
        elements = there = prod(sides)
        if elements and isinstance(strides, list) and len(strides) == len(sides):
            steps = list(zip(sides, strides, strict=True))
            once = prod(side for side, step in steps if step != 0)
            # Views of windows that overlap reach no further than their last element.
            there = min(once, 1 + sum((side - 1) * step for side, step in steps))
        return cls(elements, width, there * width)


def bytes_moved(operator: str, arguments: Sequence[Tensor]) -> int:
    """What a call with these arguments, one at least, reads and writes at least; 0 where that is
    not known.

    Of operators that are not listed here nothing is said: a lookup reads what its indices name, and
    those are not recorded. What a call is given to write to stands behind what it reads.
    """
    name = operator.removeprefix("aten::")
    first = arguments[0]
    if name in _WRITING:
        return first.elements * first.width
    if name == "copy_":
        return first.elements * first.width + sum(one.stored for one in arguments[1:2])
    if name in _REDUCING:
        return first.stored
    plain = name.removesuffix("_")
    if plain not in _READ:
        return 0
    read = arguments[: _READ[plain]]
    written = first if plain != name else max(read, key=lambda one: one.elements * one.width)
    width = 1 if name in _COMPARING else written.width
    return sum(one.stored for one in read) + written.elements * width


_WRITING = frozenset({"fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_"})
"""These write their first input and read nothing that counts."""

_REDUCING = frozenset(
    {
        *("sum", "mean", "prod", "max", "min", "amax", "amin", "argmax", "argmin", "any", "all"),
        *("norm", "linalg_vector_norm", "var", "std", "var_mean", "logsumexp"),
    }
)
"""What they write may be next to nothing."""

_COMPARING = frozenset({"gt", "lt", "ge", "le", "eq", "ne"})
"""They write a byte for each element."""

_ONE = (
    *("square", "sqrt", "rsqrt", "reciprocal", "exp", "log", "neg", "abs", "sin", "cos", "erf"),
    *("sigmoid", "tanh", "relu", "gelu", "silu", "mish", "elu", "hardtanh", "hardswish"),
    *("hardsigmoid", "leaky_relu", "softplus", "clamp", "clamp_min", "clamp_max"),
    *("native_dropout", "_softmax", "_log_softmax", "native_layer_norm", "native_group_norm"),
    *("native_batch_norm", "cudnn_batch_norm"),
)
_TWO = (
    *("add", "sub", "rsub", "mul", "div", "pow", "masked_fill", *_COMPARING),
    *("threshold_backward", "gelu_backward", "silu_backward", "sigmoid_backward"),
    *("tanh_backward", "mish_backward", "hardtanh_backward", "hardswish_backward"),
    *("hardsigmoid_backward", "leaky_relu_backward", "native_dropout_backward"),
    *("_softmax_backward_data", "_log_softmax_backward_data", "native_layer_norm_backward"),
    *("native_batch_norm_backward", "cudnn_batch_norm_backward"),
)
_THREE = ("addcmul", "addcdiv", "lerp")
_READ = {name: count for count, names in enumerate((_ONE, _TWO, _THREE), 1) for name in names}
"""How many of their first arguments they read, once at least; they write as many elements as the
largest of those has. Weights and statistics of a normalization count for nothing beside its
input."""
