"""The buckets of DistributedDataParallel: copies out of them, and one that holds all gradients."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.analysis.steps import EXPOSED_COPIES
from perftui.diagnosis.model import Severity
from perftui.run.reader import RunSnapshot
from tests.core.diagnosis.runs import make_run
from tests.core.diagnosis.stories import diagnosed, finding_of, found, training
from tests.traces.builder import TraceBuilder, ms, us

COPY_BACK = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
MIB = 1 << 20


def run_with(**arguments: Any) -> RunSnapshot:
    """A run whose model is wrapped so."""
    wrappers = [{"name": "DistributedDataParallel", "count": 1, "arguments": arguments}]
    return make_run(count=40, events=(("settings", {"wrappers": wrappers}),))


def copying(each: float, gradients: int = 10) -> TraceBuilder:
    """Steps of 10 ms at the end of which each gradient is copied for some us."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().backward().launch("gemm", ms(10) - us(each * gradients), starts=begin)
        t.at(begin + ms(10) - us(each * gradients))
        for _ in range(gradients):
            now = t.now
            t.op(COPY_BACK).op("aten::copy_").launch(
                "Memcpy DtoD (Device -> Device)",
                us(each),
                starts=now,
                call=us(2),
                api="cudaMemcpyAsync",
                category="gpu_memcpy",
                bytes=MIB,
            )
            t.at(now + us(each)).close().close()
        t.end()

    return training().repeat(4, step)


def reducing(size: int, each: float = 3, hidden: bool = False) -> TraceBuilder:
    """Steps with 10 ms of backward, and then so many ms in which that many bytes are reduced."""
    told: dict[str, Any] = {"In msg nelems": size // 4, "dtype": "Float", "Group size": 8}

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().range("DistributedDataParallel.forward", us(10)).backward()
        t.launch("gemm", ms(10), starts=begin).at(begin + ms(10))
        t.all_reduce(ms(each), starts=t.now - (ms(each) if hidden else 0), **told)
        t.at(begin + ms(10 + each)).end()

    return training().repeat(4, step)


def test_copies_out_of_buckets_are_named() -> None:
    finding = finding_of(copying(60), "bucket-copies")
    assert finding.severity is Severity.WARNING
    assert finding.cost_ns == us(600)
    assert finding.parts == (EXPOSED_COPIES,)
    assert "each of 10 gradients" in finding.sentence


def test_few_are_worth_a_word_and_fewer_are_not() -> None:
    assert finding_of(copying(21), "bucket-copies").severity is Severity.INFO
    assert found(diagnosed(copying(19)), "bucket-copies") is None


def test_gradients_that_lie_in_buckets_are_not_advised_to() -> None:
    run = run_with(gradient_as_bucket_view=True)
    assert found(diagnosed(copying(60), run), "bucket-copies") is None
    assert found(diagnosed(reducing(100 * MIB)), "bucket-copies") is None


def test_one_bucket_for_all_hides_nothing() -> None:
    judged = diagnosed(reducing(100 * MIB))
    finding = found(judged, "single-bucket")
    assert finding is not None
    assert finding.cost_ns == round(ms(3) * 0.75)
    assert "100 MiB" in finding.sentence
    rest = found(judged, "communication-exposed")
    assert rest is not None
    assert rest.cost_ns + finding.cost_ns == ms(3)


def test_a_bucket_of_the_usual_size_is_none() -> None:
    assert found(diagnosed(reducing(49 * MIB)), "single-bucket") is None


@pytest.mark.parametrize(("cap", "is_named"), [(25 * MIB, False), (100 * MIB, True)])
def test_one_large_parameter_in_buckets_of_the_usual_size_is_none(cap: int, is_named: bool) -> None:
    judged = diagnosed(reducing(100 * MIB), run_with(bucket_bytes_cap=cap))
    assert (found(judged, "single-bucket") is not None) == is_named


def test_a_hidden_bucket_costs_nothing() -> None:
    assert found(diagnosed(reducing(100 * MIB, hidden=True)), "single-bucket") is None


@pytest.mark.parametrize("name", ["DistributedDataParallel.forward", "ProfilerStep"])
def test_buckets_are_reported_only_for_gradients_of_the_wrapper(name: str) -> None:
    story = reducing(100 * MIB)
    story.spans = [
        span
        for span in story.spans
        if not (span.name.startswith("Distributed") and name == "ProfilerStep")
    ]
    said = found(diagnosed(story), "single-bucket")
    assert (said is not None) == (name != "ProfilerStep")
