"""Large products of whose result one piece is used."""

from __future__ import annotations

import pytest

from perftui.diagnosis.model import Finding, Severity
from tests.core.diagnosis.cpu_runs import call, judged, ops, trained
from tests.core.diagnosis.runs import MS
from tests.traces.builder import TraceBuilder

NODE = "autograd::engine::evaluate_function: "


def last_position(
    product: float = 10, *, views: int = 1, behind: tuple[str, ...] = ("aten::select",)
) -> Finding | None:
    """A product of so many ms of 100 ms, views of it, and what takes its result, with a backward
    pass of twice that for the product and 2 ms for the piece."""

    def step(t: TraceBuilder) -> None:
        call(t.forward(), "aten::gru", lasting=88_000 - 3000 * product)
        call(t, "aten::linear", "aten::addmm", lasting=1000 * product)
        ops(t, *["aten::view"] * views, *behind, "aten::cross_entropy_loss")
        t.backward()
        call(t, f"{NODE}NllLossBackward0", lasting=10)
        call(t, f"{NODE}SelectBackward0", "aten::zeros", lasting=2000)
        call(t, f"{NODE}ViewBackward0", lasting=10)
        call(t, f"{NODE}AddmmBackward0", "aten::mm", lasting=2000 * product)
        call(t, f"{NODE}GruBackward0", lasting=10_000 - 50)
        t.close()

    facts = trained(
        step,
        {"forward": 88 - 2 * product, "backward": 12 + 2 * product},
        ("/p/train.py", 16, "forward"),
    )
    return judged(facts, "dropped-results")


def test_a_product_of_which_one_piece_is_used_is_reported() -> None:
    finding = last_position()
    assert finding is not None
    assert finding.sentence == (
        "A matrix product at train.py:16 is computed in full, but only part of its result is "
        "used: 32 ms of each 100 ms step (32 %), backward pass included."
    )
    assert finding.cost_ns == pytest.approx(16 * MS, rel=0.02)
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(("product", "severity"), [(2, None), (3, Severity.WARNING)])
def test_a_small_product_is_left_alone(product: float, severity: Severity | None) -> None:
    finding = last_position(product)
    assert (finding.severity if finding else None) is severity


@pytest.mark.parametrize(
    "behind",
    [
        # Queries, keys and values.
        ("aten::select",) * 3,
        ("aten::gelu",),
        ("aten::log_softmax", "aten::gather"),
        ("aten::slice",),
    ],
)
def test_where_more_of_it_may_be_used_nothing_is_said(behind: tuple[str, ...]) -> None:
    assert last_position(behind=behind) is None


def test_a_gather_is_one_piece_whatever_comes_of_it() -> None:
    assert last_position(views=0, behind=("aten::gather", "aten::slice")) is not None
