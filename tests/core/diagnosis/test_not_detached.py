"""Models that take turns, of which one learns from what was not detached from the other."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.model import Finding, Severity
from tests.core.diagnosis.cpu_runs import FLOATS, SGD, call, judged, trained
from tests.core.diagnosis.runs import MS
from tests.traces.builder import TraceBuilder, us

NODE = "autograd::engine::evaluate_function: "
SUM = f"{NODE}torch::autograd::AccumulateGrad"
GENERATOR, CRITIC = "ConvolutionBackward0", "AddmmBackward0"
LINE = ("/p/train.py", 10, "backward")


class Numbers:
    """The numbers that torch gives to nodes."""

    def __init__(self) -> None:
        self.next = 0

    def call(self, t: TraceBuilder) -> int:
        """A model is called: the number of its node."""
        self.next += 1
        t.forward().op("aten::linear", us(1000), **{"Sequence number": self.next}).close()
        return self.next


def backward(t: TraceBuilder, *nodes: tuple[str, int, float], sums: int) -> None:
    """A pass through nodes of so many us, which keeps so many gradients, and an update."""
    t.backward()
    for name, number, lasting in nodes:
        t.op(f"{NODE}{name}", us(lasting), **{"Sequence number": number, "Fwd thread id": 1})
    for _ in range(sums):
        call(t, SUM, "aten::detach", lasting=1)
    t.close().optimizer_step(us(10))


def gan(
    beyond: float = 6,
    *,
    sizes: tuple[int, ...] = (3, 2),
    critic: int = 5,
    second: int = 5,
    real: bool = True,
) -> Finding | None:
    """The critic learns, in ``beyond`` ms more of the generator, then the generator; ``critic``
    gradients are kept in the first pass and ``second`` in the second."""

    def step(t: TraceBuilder) -> None:
        numbers = Numbers()
        made, judged_made = numbers.call(t), numbers.call(t)
        judged_real = numbers.call(t) if real else 0
        seen = [(CRITIC, judged_real, 2000)] if real else []
        farther = [(GENERATOR, made, 1000 * beyond)] if beyond else []
        backward(t, *seen, (CRITIC, judged_made, 2000), *farther, sums=critic)
        made, judged_made = numbers.call(t), numbers.call(t)
        backward(t, (CRITIC, judged_made, 2000), (GENERATOR, made, 6000), sums=second)

    note: dict[str, Any] = {
        "optimizers": [{**SGD, "parameters": size} for size in sizes],
        "parameters": [FLOATS],
    }
    facts = trained(step, {"forward": 5, "backward": 12 + beyond}, LINE, note=note, steps=3)
    return judged(facts, "unused-gradients")


def test_a_critic_whose_samples_are_not_detached_is_reported() -> None:
    finding = gan()
    assert finding is not None
    assert finding.sentence == (
        "Backward continues into a model that another optimizer trains, and those gradients are "
        "thrown away: 6.0 ms of each 23 ms step (26 %) at train.py:10; detach() its output."
    )
    assert finding.cost_ns == pytest.approx(6 * MS, rel=0.01)
    assert finding.severity is Severity.CRITICAL


def test_a_critic_that_stands_still_while_the_generator_learns_is_no_excuse() -> None:
    """The generator's pass then keeps only its own gradients."""
    finding = gan(second=3)
    assert finding is not None
    assert finding.cost_ns == pytest.approx(6 * MS, rel=0.01)


@pytest.mark.parametrize(("beyond", "severity"), [(0.85, None), (1.1, Severity.WARNING)])
def test_a_small_generator_is_left_alone(beyond: float, severity: Severity | None) -> None:
    finding = gan(beyond)
    assert (finding.severity if finding else None) is severity


@pytest.mark.parametrize(
    "other",
    [
        # Detached: the critic's pass keeps its own gradients only.
        {"beyond": 0, "critic": 2},
        # One optimizer holds all, or a third takes part that the passes do not reach.
        {"sizes": (5,)},
        {"sizes": (3, 2, 1)},
        # Which of the passes goes too far is not told.
        {"real": False},
    ],
)
def test_what_may_be_meant_is_not_reported(other: dict[str, Any]) -> None:
    assert gan(**other) is None
