"""What large collectives reach of the link between the cards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perftui.analysis.kernels.limits import link_of
from perftui.diagnosis.model import Severity
from tests.core.diagnosis.runs import make_run
from tests.core.diagnosis.stories import diagnosed, finding_of, found, reasons
from tests.traces.builder import TraceBuilder, ms, us

MIB = 1 << 20


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

    story = TraceBuilder(fields={"deviceProperties": [{"id": 0, "name": card}]})
    return story.repeat(4, step)


def test_a_slow_link_is_a_hint_in_a_trace_alone_and_more_in_a_run() -> None:
    """25 MiB x 2 x 7/8 in 2 ms are 22.9 GB/s, 8 % of 300."""
    finding = finding_of(moving(25, 2), "slow-network")
    assert finding.severity is Severity.INFO
    share = 25 * MIB * 1.75 / 2e6 / 300
    assert finding.cost_ns == pytest.approx(ms(2) * (1 - share / 0.6), abs=2)
    assert "22.9 GB/s" in finding.sentence
    of_run = finding_of(moving(25, 2), "slow-network", make_run(count=40, phases={"forward": 12}))
    assert of_run.severity is Severity.WARNING


def test_the_rest_is_left_to_communication_in_general() -> None:
    judged = diagnosed(moving(25, 4))
    parts = [found(judged, rule) for rule in ("slow-network", "communication-exposed")]
    assert sum(part.cost_ns for part in parts if part) <= ms(4)


def test_a_fifth_of_the_link_is_enough() -> None:
    """62.4 and 57.3 GB/s."""
    assert found(diagnosed(moving(85, 2.5)), "slow-network") is None
    assert found(diagnosed(moving(78, 2.5)), "slow-network") is not None


def test_the_fastest_call_tells_not_those_that_wait() -> None:
    story = moving(25, 2)
    next(span for span in story.spans if span.name.startswith("nccl")).end -= ms(1.8)
    assert found(diagnosed(story), "slow-network") is None


@pytest.mark.parametrize("ranks", [1, 16])
def test_one_rank_or_several_machines_are_not_judged(ranks: int) -> None:
    judged = diagnosed(moving(25, 2, ranks))
    assert found(judged, "slow-network") is None
    assert "slow-network" not in reasons(judged)
    run = make_run(count=40, phases={"forward": 12})
    ranks_of = tuple(replace(run.ranks[0], rank=at, host=f"box{at}") for at in range(2))
    assert found(diagnosed(moving(25, 2), replace(run, ranks=ranks_of)), "slow-network") is None


def test_it_says_what_it_does_not_know_where_much_is_exposed() -> None:
    assert "H100 NVL" in reasons(diagnosed(moving(25, 2, card="NVIDIA H100 NVL")))["slow-network"]
    story = moving(25, 2)
    for span in story.spans:
        span.args.pop("dtype", None)
    assert "bytes" in reasons(diagnosed(story))["slow-network"]
    assert "slow-network" not in reasons(diagnosed(moving(25, us(100) / ms(1))))


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
