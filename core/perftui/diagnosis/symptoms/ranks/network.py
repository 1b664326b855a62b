"""The link between the cards carries far less than it could."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.analysis.kernels.limits import CardLink, link_of
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import EXPOSED_COMMUNICATION
from perftui.diagnosis.judge import cost_of
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.ranks.buckets import SINGLE_BUCKET
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, trace_fact
from perftui.facts.gpu.card import trace_card
from perftui.facts.ranks.collective_calls import collective_calls
from perftui.facts.ranks.collective_sizes import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
from perftui.facts.ranks.slow_rank import slow_rank
from perftui.facts.source.operator_lines import place_in_part
from perftui.facts.step.judged_step import judged_step

LARGE = 16 << 20
"""Bytes from which on a collective comes near the rate of its link, as nccl-tests draws it."""

FEWEST = 3
"""Large collectives of which the fastest is believed to wait for no other rank."""

ONE_MACHINE = 8
"""Ranks that one machine holds at most; of more the link between machines decides."""

_TRIPS = {ALL_REDUCE: 2, ALL_GATHER: 1, REDUCE_SCATTER: 1}
"""Times (n - 1) / n that each byte crosses the link: the bus bandwidth of nccl-tests."""


@dataclass(frozen=True)
class BusBandwidth:
    """Rates in GB/s."""

    reached: float
    """Of the fastest call."""
    link: CardLink
    ranks: int
    calls: int
    transfer: int
    """What the large calls of a step take at that rate, ns."""
    exposed: int
    """Time of a step in which only they were under way, ns."""

    @property
    def share(self) -> float:
        """What is reached of the link's rate, 0 to 1."""
        return self.reached / self.link.rate


@trace_fact
def bus_bandwidth(analysis: TraceAnalysis) -> BusBandwidth:
    """By the fastest of the large collectives among the cards of one machine.

    Raises:
        NotApplicableError: no such collectives are in the trace.
        UnknownError: the trace has no sizes, or the card's link is not listed.
    """
    calls = collective_calls(analysis)
    if not (calls.size > 0).any():
        raise UnknownError("the trace does not record how many bytes its collectives move")
    trips = np.array([_TRIPS.get(kind, 0) for kind in calls.kind])
    chosen = (calls.size >= LARGE) & (trips > 0) & (calls.duration > 0)
    chosen &= (calls.ranks > 1) & (calls.ranks <= ONE_MACHINE)
    if int(chosen.sum()) < FEWEST:
        raise NotApplicableError
    card = trace_card(analysis).name
    link = link_of(card)
    if link is None:
        raise UnknownError(
            f"the bandwidth of the link between cards of type {card} is not listed"
            if card
            else "the trace does not name the card, so its link is not known"
        )
    ranks = calls.ranks[chosen]
    crossing = calls.size[chosen] * trips[chosen] * (ranks - 1) / ranks
    reached = float((crossing / calls.duration[chosen]).max())
    return BusBandwidth(
        reached,
        link,
        int(ranks.max()),
        int(chosen.sum()),
        round(float(crossing.sum()) / reached / calls.steps),
        calls.exposed(chosen),
    )


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
