"""Arithmetic and bytes of calls of operators, by the sizes of their inputs."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.kernels.limits import Tensor, Work, work_of

HALF = "c10::BFloat16"


def called(kind: str, *sizes: list[int], texts: tuple[str, ...] = ()) -> dict[str, Any]:
    """Arguments of an event, as Kineto writes them."""
    return {
        "Input Dims": list(sizes),
        "Input type": [kind if size else "Scalar" for size in sizes],
        "Concrete Inputs": list(texts),
    }


def test_a_product_takes_two_operations_for_each_pair_and_moves_three_matrices() -> None:
    work = work_of("aten::mm", called("float", [4, 8], [8, 16]))
    assert work == Work(2 * 4 * 8 * 16, 4 * (4 * 8 + 8 * 16 + 4 * 16))
    work = work_of("aten::addmm", called(HALF, [16], [4, 8], [8, 16], [], []))
    assert work == Work(2 * 4 * 8 * 16, 2 * (16 + 4 * 8 + 8 * 16 + 4 * 16))
    work = work_of("aten::bmm", called(HALF, [3, 4, 8], [3, 8, 16]))
    assert work == Work(2 * 3 * 4 * 8 * 16, 2 * 3 * (4 * 8 + 8 * 16 + 4 * 16))


def test_a_convolution_counts_the_spots_of_its_output() -> None:
    texts = ("", "", "[1, 1]", "[2, 2]", "[1, 1]", "1")
    sizes = ([2, 3, 8, 8], [5, 3, 3, 3])
    work = work_of("aten::cudnn_convolution", called("float", *sizes, [], [], [], [], texts=texts))
    # Four spots a side: (8 + 2 - 2 - 1) // 2 + 1.
    assert work == Work(2 * 2 * 4 * 4 * 5 * 27, 4 * (2 * 3 * 64 + 5 * 27 + 2 * 16 * 5))
    backward = called(
        "float", [2, 5, 4, 4], *sizes, *([[]] * 8), texts=("",) * 10 + ("[True, True, False]",)
    )
    found = work_of("aten::convolution_backward", backward)
    assert found is not None
    assert found.flops == 2 * 2 * 2 * 4 * 4 * 5 * 27


def test_causal_attention_counts_half_of_the_pairs() -> None:
    heads = [[2, 4, 16, 8]] * 3
    plain = work_of("aten::_cudnn_attention_forward", called(HALF, *heads))
    assert plain is not None
    assert plain.flops == 2 * 2 * (2 * 4 * 16) * 16 * 8
    causal = called(HALF, *heads, texts=("",) * 10 + ("True",))
    half = work_of("aten::_cudnn_attention_forward", causal)
    assert half is not None
    assert half.flops == plain.flops // 2


@pytest.mark.parametrize(
    ("operator", "sizes", "elements"),
    [
        ("aten::mul", ([4, 4], [4]), 16 + 4 + 16),
        ("aten::add_", ([4, 4], [4, 4]), 16 + 16 + 16),
        ("aten::mul", ([4, 4], [], [4, 4]), 16 + 16),
        ("aten::clamp_min", ([4, 4], [], [4, 4]), 16 + 16),
        ("aten::copy_", ([4, 4], [4]), 16 + 4),
        ("aten::fill_", ([4, 4], []), 16),
        ("aten::sum", ([4, 4], []), 16),
        ("aten::gather", ([4, 4], [], [2, 4]), 0),
        ("aten::embedding", ([4, 4], [2]), 0),
        ("triton_red_fused_add", ([4, 4], [4, 4]), 0),
    ],
)
def test_other_operators_move_what_they_read_and_write(
    operator: str, sizes: tuple[list[int], ...], elements: int
) -> None:
    """What a call is given to write to is not read; lookups and unknown operators say nothing."""
    assert work_of(operator, called("float", *sizes)) == Work(0, 4 * elements)


def test_a_comparison_writes_a_byte_for_each_element() -> None:
    assert work_of("aten::gt", called("float", [4, 4], [])) == Work(0, 4 * 16 + 16)


def test_an_expanded_input_is_read_once() -> None:
    arguments = called("float", [4, 8], [4, 8])
    arguments["Input Strides"] = [[8, 1], [0, 1]]
    assert work_of("aten::add", arguments) == Work(0, 4 * (32 + 8 + 32))
    arguments = called(HALF, [3, 4, 8], [3, 8, 16])
    arguments["Input Strides"] = [[32, 8, 1], [0, 16, 1]]
    work = work_of("aten::bmm", arguments)
    assert work == Work(2 * 3 * 4 * 8 * 16, 2 * (3 * 4 * 8 + 8 * 16 + 3 * 4 * 16))


SIDES = st.lists(st.integers(0, 4), max_size=4)


@given(SIDES, st.data())
def test_no_element_in_memory_is_left_out_and_none_of_an_expanded_tensor_counts_twice(
    sides: list[int], data: st.DataObject
) -> None:
    steps = data.draw(st.lists(st.integers(0, 9), min_size=len(sides), max_size=len(sides)))
    places = product(*(range(side) for side in sides))
    found = {sum(at * step for at, step in zip(place, steps, strict=True)) for place in places}
    assert Tensor.of(sides, steps, "float").stored >= 4 * len(found)
    kept = [data.draw(st.booleans()) for _ in sides]
    whole = [prod(s for s, k in zip(sides[i + 1 :], kept[i + 1 :], strict=True) if k)
             for i in range(len(sides))]  # fmt: skip
    expanded = [step if keep else 0 for step, keep in zip(whole, kept, strict=True)]
    places = product(*(range(side) for side in sides))
    found = {sum(at * step for at, step in zip(place, expanded, strict=True)) for place in places}
    assert Tensor.of(sides, expanded, "float").stored == 4 * len(found)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"Input Dims": [], "Input type": []},
        {"Input Dims": "4, 8", "Input type": ["float"]},
        called("float", [4]),
        {"Input Dims": [[[4], [8]]], "Input type": ["TensorList"]},
    ],
)
def test_what_tells_no_sizes_has_no_work(arguments: dict[str, Any]) -> None:
    assert work_of("aten::mm", arguments) is None


@given(
    st.sampled_from(["aten::mm", "aten::convolution_backward", "aten::_flash_attention_forward"]),
    st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=4),
    st.lists(st.sampled_from(["", "[1, 1]", "True", "x"]), max_size=12),
)
def test_sizes_of_any_form_are_read_or_refused(
    operator: str, sizes: list[list[int]], texts: list[str]
) -> None:
    work = work_of(operator, called("float", *sizes, texts=tuple(texts)))
    assert work is None or (work.flops >= 0 and work.bytes >= 0)
