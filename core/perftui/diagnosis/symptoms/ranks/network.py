"""The link between the cards carries far less than it could."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.steps.parts import EXPOSED_COMMUNICATION
from perftui.diagnosis.judge import cost_of
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.ranks.buckets import SINGLE_BUCKET
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.ranks.bus_bandwidth import bus_bandwidth
from perftui.facts.ranks.slow_rank import slow_rank
from perftui.facts.source.part_lines import place_in_part
from perftui.facts.step.judged_step import judged_step

LOW = 0.2
"""Share of the link's rate below which it is slow; nsys-ai."""

USUAL = 0.6
"""Share of it that large collectives reach where nothing is wrong; nccl-tests reach 0.7 to 0.85."""


def _slow(facts: Facts) -> Lost | None:
    """What is won where large collectives come to the usual rate, of the time in which nothing
    hides them and none waits for another."""
    judged = judged_step(facts)
    step, exposed = judged.of, judged.part(EXPOSED_COMMUNICATION)
    if exposed < SLOW_NETWORK.limits.warning * step.mean or _is_of_hosts(facts):
        raise NotApplicableError
    found = bus_bandwidth(facts)
    if found.share >= LOW or slow_rank.or_none(facts) is not None:
        return None
    left = min(exposed, found.exposed, found.transfer) - cost_of(SINGLE_BUCKET, facts)
    cost = max(round(left * (1 - found.share / USUAL)), 0)
    return Lost(
        cost,
        step,
        f"Large collectives of {found.ranks} ranks come to {found.reached:.3g} GB/s, "
        f"{fmt.percent(found.share)} of what {found.link.name} carries: "
        f"{fmt.part_of_step(cost, step.mean)} more than usual.",
        (
            Figure.share("lost to the slow link", cost / step.mean, SLOW_NETWORK.limits.warning),
            Figure.share("reached of the link", found.share, LOW),
            Figure("GB/s on the bus", round(found.reached, 1)),
            Figure(f"GB/s of {found.link.name}, each way", found.link.rate),
            Figure("large collectives", found.calls, "count"),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place=place_in_part(facts, EXPOSED_COMMUNICATION),
        parts=(EXPOSED_COMMUNICATION,),
        # In a trace alone nothing shows whether the ranks share a machine, or one comes late.
        worst=Severity.CRITICAL if facts.run else Severity.INFO,
        unproven="the bandwidth that nccl-tests measures on this machine",
    )


def _is_of_hosts(facts: Facts) -> bool:
    """Whether the ranks of the run are on several machines, between which no rate is known."""
    return facts.run is not None and len({rank.host for rank in facts.run.ranks}) > 1


SLOW_NETWORK = Rule(
    id="slow-network",
    when="large collectives reach a small part of the bandwidth of the link between the cards",
    explanation=(
        "Compares the bus bandwidth of the fastest large collective, as nccl-tests counts it, "
        "with the bandwidth of the card's link. If it is low, data takes another path: host "
        "memory, another socket, or a network. NCCL_DEBUG=INFO prints the path; check nvidia-smi "
        "topo -m, NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, and ACS or the IOMMU in virtual machines."
    ),
    lost=_slow,
    limits=Limits(
        0.10,
        0.30,
        "nsys-ai reports collectives below a fifth of the peak; the TensorBoard plugin reports "
        "parts of a step from 10 %.",
    ),
    answer="the path that NCCL takes: nvidia-smi topo -m, NCCL_DEBUG=INFO, NCCL_P2P_DISABLE unset",
)
