"""Backward passes of one step that go through the same layers."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.model import Severity
from perftui.facts.fact import Facts
from tests.core.diagnosis.cpu_runs import call, judged, ops, trained
from tests.core.diagnosis.runs import MS
from tests.traces.builder import TraceBuilder, us

NODE = "autograd::engine::evaluate_function: "
SUM = f"{NODE}torch::autograd::AccumulateGrad"
LINE = ("/p/train.py", 10, "backward")


def node(t: TraceBuilder, number: int | None, lasting: float, *, keeps: bool = False) -> None:
    """A node of that number, whose operator takes so many us; ``keeps`` its own graph."""
    numbered: dict[str, Any] = {} if number is None else {"Sequence number": number}
    t.op(f"{NODE}AddmmBackward0", **numbered, **{"Fwd thread id": 1})
    kept = {"Sequence number": number + 50} if keeps and number else {}
    t.op("aten::mm", us(lasting), **kept).close()


def losses(
    shared: float = 8,
    *,
    again: float = 8,
    between: tuple[str, ...] = ("aten::mul",),
    number: int | None = 1,
    forward: bool = False,
    adds: bool = True,
    keeps: bool = False,
) -> Facts:
    """Two losses that go backward after 10 ms of forward: through 4 ms of their own each, then in
    ``shared`` and ``again`` ms through what is numbered 1 and ``number``."""

    def step(t: TraceBuilder) -> None:
        call(t.forward(), "aten::linear", "aten::addmm", lasting=10_000)
        t.backward()
        node(t, 7, 4000, keeps=keeps)
        node(t, 1, 1000 * shared, keeps=keeps)
        call(t, SUM, "aten::detach", lasting=1)
        call(t, SUM, "aten::detach", lasting=1)
        t.close()
        ops(t, *between, each=1)
        if forward:
            call(t.forward(), "aten::linear", "aten::addmm", lasting=1000)
            t.close()
        t.backward()
        node(t, 8, 4000)
        node(t, number, 1000 * again)
        call(t, SUM, "aten::add_" if adds else "aten::detach", lasting=1)
        call(t, SUM, "aten::detach", lasting=1)
        t.close()

    return trained(step, {"forward": 10, "backward": 8 + shared + again}, LINE)


def test_losses_that_go_backward_one_by_one_are_reported_with_their_line() -> None:
    finding = judged(losses(), "repeated-backward")
    assert finding is not None
    assert finding.sentence == (
        "2 backward passes of each step run through the same layers, for 8.0 ms of each 34 ms "
        "step (24 %) more than one would at train.py:10."
    )
    assert finding.cost_ns == pytest.approx(8 * MS, rel=0.01)


def test_a_forward_pass_between_them_makes_no_other_graph() -> None:
    """As where a state is handed on with its graph, and each part goes backward by itself."""
    finding = judged(losses(forward=True), "repeated-backward")
    assert finding is not None
    assert finding.cost_ns == pytest.approx(8 * MS, rel=0.01)


@pytest.mark.parametrize(("again", "severity"), [(1.3, None), (1.5, Severity.WARNING)])
def test_little_that_is_shared_is_left_alone(again: float, severity: Severity | None) -> None:
    finding = judged(losses(again=again), "repeated-backward")
    assert (finding.severity if finding else None) is severity


@pytest.mark.parametrize(
    "unlike",
    [
        losses(number=2),
        losses(adds=False),
        losses(between=("aten::clone", "aten::clone")),
        losses(keeps=True),
    ],
    ids=["own graphs", "gradients are dropped", "copied", "second derivative"],
)
def test_passes_that_one_could_not_stand_for_are_left_alone(unlike: Facts) -> None:
    assert judged(unlike, "repeated-backward") is None


def test_nodes_without_numbers_tell_nothing() -> None:
    assert judged(losses(number=None), "repeated-backward") is None
