"""The ranks of a training side by side, as text."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION
from perftui.facts.fact import Facts
from perftui.facts.ranks.rank_table import RankTable, rank_table
from perftui.facts.ranks.slow_rank import table_of_traces
from perftui.facts.ranks.traced_ranks import TracedRanks, traced_ranks

_UNKNOWN = "-"


def table_of_ranks(facts: Facts) -> RankTable:
    """The ranks of a run or of a directory of traces; of others one row, or none."""
    traced = traced_ranks.or_none(facts)
    return _table(traced) if traced else rank_table(facts)


def _table(traced: TracedRanks) -> RankTable:
    return table_of_traces(traced.each, 0, traced.problems)


def ranks_text(facts: Facts) -> Iterator[str]:
    """A line for each rank of a directory of traces; nothing of a run, or of one trace."""
    traced = traced_ranks.or_none(facts)
    if traced is None:
        return
    yield "Ranks, mean step; waits caused: how long all others wait for this rank"
    yield f"  {'rank':>4} {'step':>10} {'compute':>10} {'exposed comm':>13} {'waits caused':>13}"
    for row in _table(traced).rows:
        shown = "*" if row.rank == traced.shown else " "
        parts = dict(row.parts)
        times = (row.mean, parts.get(COMPUTE), parts.get(EXPOSED_COMMUNICATION), row.caused)
        step, compute, exposed, caused = map(_time, times)
        yield f" {shown}{row.rank:>4} {step:>10} {compute:>10} {exposed:>13} {caused:>13}"
    yield "  * the rank of this report"


def _time(ns: int | None) -> str:
    return _UNKNOWN if ns is None else fmt.duration(ns)
