"""Views that cost whole tensors: gradients of their pieces, operands expanded for a product."""

import itertools
from typing import Any

import pytest

from perftui.facts.fact import Facts
from tests.core.diagnosis.runs import MS, call, ops, trained
from tests.core.diagnosis.stories import finding_of, found
from tests.traces.builder import TraceBuilder, us

NODE = "autograd::engine::evaluate_function: "
FILLED, EXPANDED = "filled-gradients", "expanded-operand"
LINES = (("/p/model.py", 12, "forward"), ("/p/train.py", 10, "backward"))
PHASES = {"forward": 40.0, "backward": 60.0}


def pieces(
    zeros: float, *, count: int = 10, tensors: int = 1, within: tuple[str, ...] = ()
) -> Facts:
    """Pieces of so many tensors, each with ``zeros`` ms that fill a whole one; they are taken by
    the operators ``within``."""

    def step(t: TraceBuilder) -> None:
        t.forward()
        for _ in range(count):
            call(t, *within, "aten::select", lasting=100)
        ops(t, "aten::linear", each=40_000 - 100 * count).close().backward()
        for at in range(count):
            t.op(f"{NODE}SelectBackward0")
            call(
                t,
                "SelectBackward0",
                "aten::select_backward",
                "aten::zeros",
                "aten::fill_",
                lasting=zeros * 1000,
            )
            if at >= tensors:
                ops(t, "aten::add_", each=1)
            t.close()
        t.pause(us(60_000 - count * zeros * 1000 - (count - tensors))).close()

    return trained(step, PHASES, *LINES)


def assigned(lasting: float) -> Facts:
    """Ten assignments to slices, whose gradients are copied for so many ms each."""

    def step(t: TraceBuilder) -> None:
        ops(t.forward(), "aten::linear", each=40_000).close().backward()
        for _ in range(10):
            t.op(f"{NODE}torch::autograd::CopySlices")
            call(t, "torch::autograd::CopySlices", "aten::copy_", lasting=lasting * 1000).close()
        t.pause(us(60_000 - 10_000 * lasting)).close()

    return trained(step, PHASES, *LINES)


def expanded(
    copying: float,
    *,
    follows: bool = True,
    sums: bool = True,
    product: str = "aten::bmm",
    sizes: tuple[list[int], list[int]] | None = None,
    stride: int = 0,
) -> Facts:
    """A product whose operand is copied for so many ms, and its gradient summed for as many, if it
    ``sums``; its copy ``follows`` an expand. Products take 10 ms each way."""
    dims: dict[str, Any] = {"Input Dims": sizes} if sizes else {}
    strides: dict[str, Any] = {"Input Strides": [[stride, 3, 1]], "Input Dims": [[5, 2, 3]]}

    numbers = itertools.count(6, 10)

    def step(t: TraceBuilder) -> None:
        first = next(numbers)
        t.forward().op("aten::matmul", **{"Sequence number": first})
        t.op(
            "aten::clone",
            **{"Sequence number": first + (2 if follows else 3), **(strides if sizes else {})},
        )
        ops(t, "aten::copy_", each=copying * 1000).close()
        t.op(product, us(10_000), **{"Sequence number": first + 4, **dims}).close()
        t.pause(us(30_000 - copying * 1000)).close().backward()
        t.op(f"{NODE}BmmBackward0").op("BmmBackward0", **{"Sequence number": first + 4})
        ops(t, "aten::bmm", each=10_000).close().close()
        t.op(f"{NODE}ExpandBackward0").op("ExpandBackward0", **{"Sequence number": first + 1})
        ops(t, *(("aten::sum",) if sums else ()), each=copying * 1000).close().close()
        t.pause(us(50_000 - (copying * 1000 if sums else 0))).close()

    return trained(step, PHASES, *LINES)


def test_a_packed_sequence_has_advice_of_its_own() -> None:
    finding = finding_of(pieces(5, within=("aten::lstm",)), FILLED)
    assert finding.sentence.startswith("aten::lstm takes a packed sequence apart, and backward ")
    assert finding.advice.startswith("padded input")


def test_assignments_to_slices_copy_gradients() -> None:
    finding = finding_of(assigned(3), FILLED)
    assert finding.sentence == (
        "Backward copies the gradient of a whole tensor for each of 10 assignments to slices at "
        "model.py:12: 30 ms of each 100 ms step (30 %)."
    )
    assert finding.advice.startswith("torch.stack()")


def test_thin_products_of_an_expanded_operand_count_half() -> None:
    thin = finding_of(expanded(5, sizes=([64, 96, 96], [64, 96, 1])), EXPANDED)
    assert (thin.is_least, thin.cost_ns) == (False, pytest.approx(20 * MS, rel=0.01))
    wide = finding_of(expanded(5, sizes=([64, 96, 96], [64, 96, 128])), EXPANDED)
    assert (wide.is_least, wide.cost_ns) == (True, pytest.approx(10 * MS, rel=0.01))
    assert wide.question is None
    unknown = finding_of(expanded(5), EXPANDED).question
    assert unknown is not None
    assert unknown.share == pytest.approx(0.1, rel=0.01)


def test_recorded_strides_show_what_has_no_gradient() -> None:
    sizes = ([64, 96, 96], [64, 96, 128])
    assert found(expanded(9, sums=False, sizes=sizes), EXPANDED) is not None
    assert found(expanded(9, sums=False, sizes=sizes, stride=6), EXPANDED) is None


def test_its_copies_are_no_layout_copies() -> None:
    assert found(expanded(20, sums=False), "layout-copies") is None
