"""Arithmetic and bytes of a call of an operator, by the sizes of its inputs.

A multiplication and an addition count as two operations, as in the rates of cards. Bytes are those
of each input and of the output, once: what a perfect kernel would move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from perftui.analysis.kernels.moved import Tensor, bytes_moved

Sizes = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Work:
    """What one call has to do at least."""

    flops: int
    """Operations of matrix products, convolutions and attention; 0 for other operators."""
    bytes: int
    """0 where the sizes do not show it: of what only looks up some of its input, for example."""


def work_of(operator: str, arguments: Mapping[str, Any]) -> Work | None:
    """The work of a call with these arguments of its event; None where they hold no sizes."""
    sizes = arguments.get("Input Dims", arguments.get("Input dims"))
    kinds = arguments.get("Input type", arguments.get("Input Types"))
    if not isinstance(sizes, list) or not isinstance(kinds, list):
        return None
    sizes = [size if _is_size(size) else [] for size in sizes]
    strides = arguments.get("Input Strides")
    strides = (
        strides if isinstance(strides, list) and len(strides) == len(sizes) else [None] * len(sizes)
    )
    tensors = [
        Tensor.of(size, step, str(kind))
        for size, step, kind in zip(sizes, strides, kinds, strict=False)
    ]
    if not any(size for size, _ in zip(sizes, kinds, strict=False)):
        return None
    known = _FLOPS.get(operator)
    if known is None:
        return Work(0, bytes_moved(operator, tensors))
    texts = arguments.get("Concrete Inputs")
    texts = [str(text) for text in texts] if isinstance(texts, list) else []
    width = next((one.width for one in tensors if one.width), 0)
    try:
        flops, output = known(sizes, texts)
    except (IndexError, ValueError, ZeroDivisionError):
        return None
    return Work(flops, sum(one.stored for one in tensors) + output * width)


def _is_size(size: object) -> bool:
    return isinstance(size, list) and all(isinstance(side, int) for side in size)


def _product(first: int) -> Callable[[Sizes, Sequence[str]], tuple[int, int]]:
    """Counts the product of two matrices, or batches of them: inputs ``first`` and the next."""

    def count(sizes: Sizes, _: Sequence[str]) -> tuple[int, int]:
        left, right = sizes[first], sizes[first + 1]
        output = prod(left[:-1]) * (right[-1] if len(right) > 1 else 1)
        return 2 * output * left[-1], output

    return count


def _convolution_backward(sizes: Sizes, texts: Sequence[str]) -> tuple[int, int]:
    gradient, inputs, weight = sizes[:3]
    wanted = texts[10].count("True", 0, texts[10].rfind(",")) if len(texts) > 10 else 2
    # Of a transposed convolution the input is the smaller side.
    side = inputs if texts[7:8] == ["True"] else gradient
    one = 2 * side[0] * prod(side[2:]) * prod(weight)
    return wanted * one, prod(inputs) + prod(weight)


def _convolution(padding: int, stride: int, dilation: int) -> Callable[..., tuple[int, int]]:
    """Forward, given the places of its numbers among the inputs."""

    def count(sizes: Sizes, texts: Sequence[str]) -> tuple[int, int]:
        inputs, weight = sizes[:2]
        numbers = [_numbers(texts[at], len(weight) - 2) for at in (padding, stride, dilation)]
        sides = [
            (length + 2 * pad - space * (window - 1) - 1) // step + 1
            for length, window, pad, step, space in zip(
                inputs[2:], weight[2:], *numbers, strict=True
            )
        ]
        spots = inputs[0] * prod(sides)
        return 2 * spots * prod(weight), spots * weight[0]

    return count


def _numbers(text: str, count: int) -> list[int]:
    """``[1, 2]`` as numbers; one stands for all."""
    found = [int(each) for each in text.strip("[]").split(",")]
    return found * count if len(found) == 1 else found


def _attention(
    query: int, length: int, causal: int, products: float
) -> Callable[[Sizes, Sequence[str]], tuple[int, int]]:
    """Counts attention of (batch, ., ., width) tensors from input ``query`` on, whose side
    ``length`` is that of the positions; input ``causal``: half of the pairs are left out."""

    def count(sizes: Sizes, texts: Sequence[str]) -> tuple[int, int]:
        left, right = sizes[query], sizes[query + 1]
        pairs = prod(left[:-1]) * right[length]
        flops = round(2 * products * pairs * left[-1])
        is_causal = len(texts) > causal and texts[causal] in ("True", "1")
        return flops // 2 if is_causal else flops, prod(left)

    return count


_BACKWARD_PRODUCTS = 5
"""The two of the forward pass, done anew in part, and those of three gradients."""

_FLOPS: Mapping[str, Callable[[Sizes, Sequence[str]], tuple[int, int]]] = {
    "aten::mm": _product(0),
    "aten::bmm": _product(0),
    "aten::addmm": _product(1),
    "aten::baddbmm": _product(1),
    "aten::_addmm_activation": _product(1),
    "aten::cudnn_convolution": _convolution(2, 3, 4),
    "aten::miopen_convolution": _convolution(3, 4, 5),
    "aten::convolution_backward": _convolution_backward,
    "aten::_cudnn_attention_forward": _attention(0, 2, 10, 2),
    "aten::_cudnn_attention_backward": _attention(1, 2, 14, _BACKWARD_PRODUCTS),
    "aten::_flash_attention_forward": _attention(0, 1, 8, 2),
    "aten::_flash_attention_backward": _attention(1, 1, 11, _BACKWARD_PRODUCTS),
    "aten::_efficient_attention_forward": _attention(0, 1, 9, 2),
    "aten::_efficient_attention_backward": _attention(1, 1, 14, _BACKWARD_PRODUCTS),
}
"""By operator: operations, and elements of the output."""
