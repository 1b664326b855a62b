"""What large collectives reach of the link between the cards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.kernels.links import CardLink, link_of
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import NotApplicableError, UnknownError, trace_fact
from perftui.facts.gpu.card import trace_card
from perftui.facts.ranks.collective_calls import collective_calls
from perftui.facts.ranks.collective_sizes import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER

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
