"""``zero-term``: a term of the loss that is computed and multiplied by 0."""

import itertools
from typing import Any

import pytest

from perftui.facts.fact import Facts
from tests.core.diagnosis.runs import MS, make_run, ops
from tests.core.diagnosis.stories import finding_of, found, reasons
from tests.traces.builder import TraceBuilder, us

ID = "zero-term"
NODE = "autograd::engine::evaluate_function: "


def term(lasting: float, *, notes: tuple[dict[str, Any], ...] | None = None) -> Facts:
    """Steps of 100 ms, with a term of so many ms each way. Of each step's four nodes, the second
    and third from the first one belong to it."""
    numbers = itertools.count(10, 10)

    def step(t: TraceBuilder) -> None:
        first = next(numbers)
        t.step().forward()
        for offset, each in ((3, 40 - lasting), (2, lasting / 2), (1, lasting / 2)):
            # The caller has the number of what it calls first, and makes no node.
            t.op("aten::linear", **{"Sequence number": first - offset})
            t.op("aten::addmm", us(1000 * each), **{"Sequence number": first - offset}).close()
        ops(t, "aten::relu", each=0).close().backward()
        for offset, each in ((0, 0), (1, lasting / 2), (2, lasting / 2), (3, 60 - lasting)):
            t.op(f"{NODE}AddmmBackward0", **{"Sequence number": first - offset})
            ops(t, "aten::mm", each=1000 * each).close()
        t.close().end()

    seen = notes if notes is not None else ({"nodes": 4, "ranges": [[1, 2]]},)
    run = make_run(
        100,
        {"forward": 40, "backward": 60},
        events=tuple(("zero_terms", note) for note in seen),
    )
    return Facts(run, TraceBuilder().repeat(2, step).analysis())


def test_its_nodes_and_what_made_them_are_for_nothing() -> None:
    finding = finding_of(term(15), ID)
    assert finding.sentence == (
        "A term of the loss is multiplied by 0: 30 ms of each 100 ms step (30 %) go to computing "
        "it, and to its backward pass, whose gradients are all 0."
    )
    assert finding.cost_ns == pytest.approx(30 * MS, rel=0.01)
    assert finding.is_least


def test_the_last_look_counts() -> None:
    zero, none = {"nodes": 4, "ranges": [[1, 2]]}, {"nodes": 4, "ranges": []}
    assert found(term(15, notes=(zero, none)), ID) is None
    assert found(term(15, notes=(none, zero)), ID) is not None
    assert found(term(15, notes=()), ID) is None


def test_another_graph_is_not_judged() -> None:
    facts = term(15, notes=({"nodes": 9, "ranges": [[1, 2]]},))
    assert "other graphs" in reasons(facts)[ID]
