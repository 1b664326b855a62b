"""A training on a GPU of which only the host was recorded: its operators prove the GPU."""

from __future__ import annotations

import pytest

from perftui.diagnosis.model import Severity
from tests.core.diagnosis.stories import diagnosed, finding_of, found, reasons, training
from tests.traces.builder import TraceBuilder, ms, us


def convolving(
    first: int, operator: str = "aten::cudnn_convolution", later: int = 20
) -> TraceBuilder:
    """Convolutions of 1 ms after one of ``first``, in a call that calls another."""

    def call(t: TraceBuilder, lasting: int) -> None:
        t.op("aten::conv2d").pause(us(10)).op(operator, lasting).pause(us(10)).close()

    story = training()
    call(story, first)
    return story.repeat(later, lambda t: call(t, ms(1)))


def test_a_gpu_that_was_not_recorded_is_said_and_not_judged() -> None:
    judged = diagnosed(convolving(ms(1)))
    assert [finding.rule for finding in judged.findings] == ["trace-incomplete"]
    assert judged.findings[0].sentence == (
        "aten::cudnn_convolution runs on a GPU, but no GPU activity was recorded: what it does "
        "is not known."
    )
    assert reasons(judged)["largest-part"] == (
        "no GPU kernels in this trace, though aten::cudnn_convolution runs on a GPU: it was not "
        "recorded"
    )


@pytest.mark.parametrize("operator", ["aten::mkldnn_convolution", "aten::cudnn_is_acceptable"])
def test_other_operators_prove_no_gpu(operator: str) -> None:
    judged = diagnosed(convolving(ms(100), operator))
    assert found(judged, "trace-incomplete") is None
    assert found(judged, "initialisation") is None
    assert judged.top is not None
    assert judged.top.rule == "compute-bound"


def test_a_first_call_far_longer_than_later_ones_sets_something_up() -> None:
    finding = finding_of(convolving(ms(20)), "initialisation")
    assert finding.severity is Severity.CRITICAL
    assert finding.cost_ns == pytest.approx(ms(20), abs=us(20))
    assert finding.place is not None
    assert finding.place.operator == "aten::cudnn_convolution"
    assert finding.sentence == (
        "First calls of operators take 20 ms of the recorded 40 ms (50 %), far longer than later "
        "ones, mainly aten::cudnn_convolution: the recording shows first calls, not steady steps."
    )


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (ms(9.9), 20),
        # One call alone may take as long as it does.
        (ms(100), 0),
    ],
)
def test_a_first_call_of_usual_length_sets_nothing_up(first: int, later: int) -> None:
    assert found(diagnosed(convolving(first, later=later)), "initialisation") is None


def test_short_first_calls_set_nothing_up() -> None:
    story = training().op("aten::cudnn_batch_norm", ms(4.9))
    story.repeat(20, lambda t: t.op("aten::cudnn_batch_norm", us(100)))
    assert found(diagnosed(story), "initialisation") is None
