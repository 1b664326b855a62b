"""Collectives: their number, their buckets, batch normalisation, and a slow link."""

from dataclasses import replace
from typing import Any

import pytest

from perftui.analysis.kernels.limits import link_of
from perftui.analysis.steps import EXPOSED_COPIES
from perftui.diagnosis.model import Severity
from perftui.run.reader import RunSnapshot
from tests.core.diagnosis.runs import make_run
from tests.core.diagnosis.stories import diagnosed, finding_of, found, reasons, training
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


def reducing_at_once(size: int, each: float = 3, hidden: bool = False) -> TraceBuilder:
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


def test_one_bucket_for_all_hides_nothing() -> None:
    judged = diagnosed(reducing_at_once(100 * MIB))
    finding = found(judged, "single-bucket")
    assert finding.cost_ns == round(ms(3) * 0.75)
    assert "100 MiB" in finding.sentence
    rest = found(judged, "communication-exposed")
    assert rest.cost_ns + finding.cost_ns == ms(3)


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


def test_many_small_reductions_are_named_at_what_their_number_costs_and_the_rest_is_another() -> (
    None
):
    finding = finding_of(reducing(40, 3 * KIB), "many-small-reductions")
    assert finding.severity is Severity.CRITICAL
    assert finding.cost_ns == 39 * us(20)
    assert "40 tensors of 12.0 KiB" in finding.sentence
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


def test_the_collective_is_told_by_its_arguments_where_the_kernel_has_no_name_of_its_own() -> None:
    told: dict[str, Any] = {"In msg nelems": 3 * KIB, "dtype": "Float"}
    story = reducing(40, 0, **told, **{"Collective name": "allreduce"})
    other = reducing(40, 0, **told, **{"Collective name": "broadcast"})
    for span in (*story.spans, *other.spans):
        span.name = span.name.replace("AllReduce_Sum_f32_RING_LL", "Generic")
    assert found(story, "many-small-reductions") is not None
    assert found(other, "many-small-reductions") is None


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
    assert found(story, "many-small-reductions") is None


@pytest.mark.slow
def test_statistics_of_batch_normalisation_are_named() -> None:
    judged = diagnosed(normalising(20))
    finding = found(judged, "sync-batch-norm")
    assert finding.cost_ns == 40 * us(20)
    assert "40 times a step" in finding.sentence
    assert found(judged, "communication-exposed") is None


def moving(
    megabytes: int, lasting: float, ranks: int = 8, card: str = "NVIDIA A100-SXM4-80GB"
) -> TraceBuilder:
    """Steps that compute for 10 ms and then reduce so much, for so many ms."""
    told: dict[str, Any] = {
        "In msg nelems": megabytes * MIB // 2,
        "dtype": "BFloat16",
        "Group size": ranks,
    }

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().launch("gemm", ms(10), starts=begin).at(begin + ms(10))
        t.all_reduce(ms(lasting), starts=t.now, **told).at(begin + ms(10 + lasting)).end()

    return TraceBuilder(fields={"deviceProperties": [{"id": 0, "name": card}]}).repeat(4, step)


def test_a_slow_link_is_a_hint_in_a_trace_alone_and_the_rest_is_communication() -> None:
    """25 MiB x 2 x 7/8 in 2 ms are 22.9 GB/s, 8 % of 300."""
    finding = finding_of(moving(25, 2), "slow-network")
    assert finding.severity is Severity.INFO
    share = 25 * MIB * 1.75 / 2e6 / 300
    assert finding.cost_ns == pytest.approx(ms(2) * (1 - share / 0.6), abs=2)
    assert "22.9 GB/s" in finding.sentence
    of_run = finding_of(moving(25, 2), "slow-network", make_run(count=40, phases={"forward": 12}))
    assert of_run.severity is Severity.WARNING
    judged = diagnosed(moving(25, 4))
    parts = [found(judged, rule) for rule in ("slow-network", "communication-exposed")]
    assert sum(part.cost_ns for part in parts if part) <= ms(4)


def test_the_fastest_call_tells_and_without_types_the_bytes_are_not_known() -> None:
    story = moving(25, 2)
    next(span for span in story.spans if span.name.startswith("nccl")).end -= ms(1.8)
    assert found(story, "slow-network") is None
    story = moving(25, 2)
    for span in story.spans:
        span.args.pop("dtype", None)
    assert "bytes" in reasons(story)["slow-network"]


def test_ranks_of_several_machines_are_not_judged() -> None:
    run = make_run(count=40, phases={"forward": 12})
    ranks_of = tuple(replace(run.ranks[0], rank=at, host=f"box{at}") for at in range(2))
    assert found(diagnosed(moving(25, 2), replace(run, ranks=ranks_of)), "slow-network") is None


@pytest.mark.parametrize(
    ("card", "link"),
    [
        ("NVIDIA A100-SXM4-80GB", "NVLink"),
        ("NVIDIA H100 80GB HBM3", "NVLink"),
        ("NVIDIA H100 PCIe", "PCIe 5"),
        ("NVIDIA A10G", "PCIe 4"),
        ("NVIDIA GeForce RTX 4090", "PCIe 4"),
        ("Tesla V100-SXM2-32GB", "NVLink"),
        ("Tesla T4", "PCIe 3"),
        ("NVIDIA H200 NVL", ""),
        ("NVIDIA A100-PCIE-40GB", ""),
    ],
)
def test_links_by_the_name_of_the_card(card: str, link: str) -> None:
    known = link_of(card)
    assert (known.name if known else "") == link
