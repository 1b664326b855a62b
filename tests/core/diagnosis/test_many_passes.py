"""Steps that go backward many times, each time for little."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.diagnosis.model import Finding, Severity
from perftui.facts.fact import Facts
from tests.core.diagnosis.cpu_runs import call, judged, trained
from tests.core.diagnosis.runs import MS, make_run
from tests.traces.builder import TraceBuilder, us

NODE = "autograd::engine::evaluate_function: "
RULE = "many-backward-passes"
LINES = (("/p/train.py", 9, "forward"), ("/p/train.py", 10, "backward"))


def sample(t: TraceBuilder, lasting: float) -> None:
    """Forward and backward of one sample: an operator of so many us each, and as much Python."""
    t.forward()
    call(t, "aten::linear", "aten::addmm", lasting=lasting).pause(us(lasting))
    t.close().backward()
    call(t, f"{NODE}AddmmBackward0", "AddmmBackward0", lasting=lasting).pause(us(lasting))
    t.close()


def passes(count: int, lasting: float = 50, rest: float = 0) -> Facts:
    """A step of so many samples, and ``rest`` us of one operator more."""

    def step(t: TraceBuilder) -> None:
        for _ in range(count):
            sample(t, lasting)
        call(t.forward(), "aten::linear", "aten::addmm", lasting=rest)
        t.close()

    each = 2 * count * lasting / 1000
    return trained(step, {"forward": each + rest / 1000, "backward": each}, *LINES)


def told(facts: Facts) -> Finding | None:
    return judged(facts, RULE)


def test_samples_that_go_backward_one_by_one_are_reported_with_their_line() -> None:
    finding = told(passes(20))
    assert finding is not None
    assert finding.sentence == (
        "Each step runs 20 backward passes at train.py:10: Python and short operator calls take "
        "3.8 ms of each 4.0 ms step (95 %) more than a single pass would."
    )
    assert finding.cost_ns == pytest.approx(3.8 * MS, rel=0.01)
    assert finding.severity is Severity.CRITICAL


@pytest.mark.parametrize(("count", "lasting", "rest"), [(7, 50, 0), (10, 50, 20_000)])
def test_a_few_passes_or_little_lost_to_them_are_left_alone(
    count: int, lasting: float, rest: float
) -> None:
    assert told(passes(count, lasting, rest)) is None


def test_long_operators_of_micro_batches_are_no_loss() -> None:
    """Only the Python between them is: a quarter of each pass."""
    finding = told(passes(10, 1000))
    assert finding is not None
    assert finding.cost_ns == pytest.approx(18 * MS, rel=0.01)


def test_the_only_jacobian_is_where_they_come_from(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def slope(model, x):\n    return jacobian(model, x)\n")
    facts = passes(20)
    assert facts.run is not None
    events = (("process", {"argv0": "train.py"}),)
    run = make_run(
        count=100, phases={"forward": 2, "backward": 2}, cwd=str(tmp_path), events=events
    )
    finding = told(Facts(run, facts.analysis))
    assert finding is not None
    assert finding.place is not None
    assert finding.place.line == 2


def test_without_a_window_they_are_not_counted() -> None:
    assert told(Facts(make_run(phases={"forward": 2, "backward": 2}))) is None
