"""The rank that the others wait for, by the traces of all ranks: what it costs the one shown."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.steps import EXPOSED_COMMUNICATION
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost
from perftui.facts.fact import Facts
from perftui.facts.place import Place
from perftui.facts.ranks.rank_table import some_ranks
from perftui.facts.ranks.slow_rank import SlowRank
from perftui.facts.ranks.trace_straggler import straggler_place
from perftui.facts.ranks.traced_ranks import traced_ranks, waits_of_ranks
from perftui.facts.step.judged_step import judged_step
from perftui.run.columns import phase_name

_SHOWN_RANKS = 8
"""Ranks listed with their time in collectives."""


def late_rank(facts: Facts, slow: SlowRank, limits: Limits) -> Lost:
    """The waits for ``slow`` of the rank whose trace is open; of ``slow`` itself those of each of
    the others."""
    step, traced, place = judged_step(facts).of, traced_ranks(facts), straggler_place(facts)
    cost = min(slow.lag, step.mean)
    own = slow.rank == traced.shown
    describe = fmt.part_of_step if step.count else fmt.part_of_trace
    whom = "each of the others" if own else f"rank {traced.shown}"
    return Lost(
        cost,
        step,
        f"Rank {slow.rank} arrives late at collectives and makes {whom} wait "
        f"{describe(cost, step.mean)}{_most_of_it(slow, place)}.",
        (
            Figure.share("waiting for that rank", cost / step.mean, limits.warning, place),
            *_sums(facts, slow),
            *collective_figures(slow),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place=place,
        parts=(slow.part,) if own else (EXPOSED_COMMUNICATION,),
        unproven=f"the trace of rank {some_ranks(traced.missing)}" if traced.missing else "",
    )


def _most_of_it(slow: SlowRank, place: Place) -> str:
    if not slow.part:
        return "; no single part of its own step explains even half of that"
    where = place.short or place.operator
    at = f" ({where})" if where else ""
    return f": there {phase_name(slow.part)} takes {fmt.duration(slow.part_lag)} longer{at}"


def _sums(facts: Facts, slow: SlowRank) -> tuple[Figure, Figure]:
    waits = waits_of_ranks(facts)
    every = sum(waits.waited(rank) for rank in waits.compared)
    return (
        Figure(f"waits for rank {slow.rank}, all ranks", waits.caused(slow.rank), "ns"),
        Figure("waits for any rank, all ranks", every, "ns"),
    )


def collective_figures(slow: SlowRank) -> list[Figure]:
    """The time in collectives of the first ranks."""
    shown = list(slow.collectives.items())[:_SHOWN_RANKS]
    return [
        Figure(f"rank {rank}, in collectives", time, "ns", place=Place(rank=rank))
        for rank, time in shown
    ]
