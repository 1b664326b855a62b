"""Many small collectives: tensors reduced one by one, and synchronised batch normalisation."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.model import Severity
from tests.core.diagnosis.stories import diagnosed, finding_of, found, training
from tests.traces.builder import TraceBuilder, ms, us

KIB = 1 << 10


def reducing(count: int, elements: int, each: float = 20, **told: Any) -> TraceBuilder:
    """Steps that compute for 2 ms and then reduce so many tensors, each for some us."""
    told = told or {"In msg nelems": elements, "dtype": "Float", "Group size": 8}

    def step(t: TraceBuilder) -> None:
        t.step().launch("gemm", ms(2), starts=t.now, stream=7).pause(ms(2) - us(5))
        t.repeat(count, lambda t: t.all_reduce(us(each), starts=t.now, **told).pause(us(each - 5)))
        t.end()

    return training().repeat(4, step)


def normalising(layers: int, computing: float = 2) -> TraceBuilder:
    """Steps whose layers exchange statistics forward and backward."""

    def step(t: TraceBuilder) -> None:
        t.step().launch("gemm", ms(computing), starts=t.now).pause(ms(computing) - us(5))
        for name in ("SyncBatchNorm", "SyncBatchNormBackward"):
            for _ in range(layers):
                t.op(name).all_reduce(us(20), starts=t.now).pause(us(15)).close()
        t.end()

    return training().repeat(4, step)


def test_many_small_reductions_are_named_at_what_their_number_costs() -> None:
    finding = finding_of(reducing(40, 3 * KIB), "many-small-reductions")
    assert finding.severity is Severity.CRITICAL
    assert finding.cost_ns == 39 * us(20)
    assert "40 tensors of 12.0 KiB" in finding.sentence


def test_what_is_left_of_the_communication_is_a_finding_of_its_own() -> None:
    judged = diagnosed(reducing(40, 3 * KIB))
    both = [found(judged, rule) for rule in ("many-small-reductions", "communication-exposed")]
    costs = [one.cost_ns if one else 0 for one in both]
    assert sum(costs) <= 40 * us(20)


def test_waiting_for_another_rank_is_no_cost_of_their_number() -> None:
    story = reducing(40, 3 * KIB)
    late = [span for span in story.spans if span.name.startswith("nccl")][1::2]
    for span in late:
        span.end = span.start + us(10)
    assert finding_of(story, "many-small-reductions").cost_ns == 39 * us(10)


@pytest.mark.parametrize(("count", "elements"), [(9, 3 * KIB), (40, 256 * KIB)])
def test_few_or_large_ones_are_none(count: int, elements: int) -> None:
    assert found(diagnosed(reducing(count, elements)), "many-small-reductions") is None


@pytest.mark.slow
def test_without_sizes_nothing_is_said_of_them() -> None:
    assert found(diagnosed(reducing(40, 0, dtype="Float")), "many-small-reductions") is None


def test_the_collective_is_told_by_its_arguments_where_the_kernel_has_no_name_of_its_own() -> None:
    told: dict[str, Any] = {"In msg nelems": 3 * KIB, "dtype": "Float"}
    story = reducing(40, 0, **told, **{"Collective name": "allreduce"})
    other = reducing(40, 0, **told, **{"Collective name": "broadcast"})
    for span in (*story.spans, *other.spans):
        span.name = span.name.replace("AllReduce_Sum_f32_RING_LL", "Generic")
    assert found(diagnosed(story), "many-small-reductions") is not None
    assert found(diagnosed(other), "many-small-reductions") is None


@pytest.mark.slow
def test_sizes_are_those_of_the_tensor_where_only_shapes_are_recorded() -> None:
    def step(t: TraceBuilder) -> None:
        t.step().launch("gemm", ms(2), starts=t.now).pause(ms(2) - us(5))
        for _ in range(40):
            shapes = {"Input Dims": [[3, KIB]], "Input type": ["float"]}
            t.op("record_param_comms").range("nccl:all_reduce")
            t.spans[-1].args.update(shapes)
            t.launch("ncclKernel_AllReduce_RING_LL_Sum_float", us(20), starts=t.now, stream=20)
            t.pause(us(15)).close().close()
        t.end()

    finding = finding_of(training().repeat(4, step), "many-small-reductions")
    assert "40 tensors of 12.0 KiB" in finding.sentence


def test_hidden_ones_cost_nothing() -> None:
    story = reducing(40, 3 * KIB)
    begin = [span.start for span in story.spans if span.name.startswith("ProfilerStep")]
    for start in begin:
        story.kernel("gemm", ms(3), starts=start, stream=9)
    assert found(diagnosed(story), "many-small-reductions") is None


@pytest.mark.slow
def test_statistics_of_batch_normalisation_are_named() -> None:
    judged = diagnosed(normalising(20))
    finding = found(judged, "sync-batch-norm")
    assert finding is not None
    assert finding.cost_ns == 40 * us(20)
    assert "40 times a step" in finding.sentence
    assert found(judged, "communication-exposed") is None


@pytest.mark.parametrize(("layers", "computing"), [(10, 2), (11, 10)])
def test_few_or_short_exchanges_of_statistics_are_none(layers: int, computing: float) -> None:
    story = normalising(layers, computing=computing)
    assert found(diagnosed(story), "sync-batch-norm") is None
