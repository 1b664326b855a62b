"""The ranks of a training side by side, as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perftui import format as fmt
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION
from perftui.facts.fact import Facts
from perftui.facts.ranks.communication import collectives_of_ranks
from perftui.facts.ranks.rank_table import RankTable, rank_table
from perftui.facts.ranks.slow_rank import slow_rank
from perftui.facts.ranks.trace_straggler import table_of_traces
from perftui.facts.ranks.traced_ranks import TracedRanks, traced_ranks, waits_of_ranks
from perftui.report.outputs.report import RanksOutput
from perftui.report.report import Report

_UNKNOWN = "-"


def ranks_object(report: Report) -> RanksOutput | None:
    """Ranks side by side, and the one that holds up the others; None where one process trains, and
    where the traces of others are not open."""
    facts, run = report.facts, report.subject.run
    traced = traced_ranks.or_none(facts)
    if traced is None and (run is None or run.world < 2):
        return None
    table = table_of_ranks(facts)
    rows: Any = [{**msgspec.to_builtins(row), "parts": dict(row.parts)} for row in table.rows]
    return {
        "rows": rows,
        "slow_rank": msgspec.to_builtins(slow_rank.or_none(facts)),
        "collectives_ns": msgspec.to_builtins(
            _in_collectives(traced) if traced else collectives_of_ranks.or_none(facts)
        ),
        "waits_ns": _waits(facts),
        "spread": table.spread,
        "shown": traced.shown if traced else report.subject.rank,
    }


def table_of_ranks(facts: Facts) -> RankTable:
    """The ranks of a run or of a directory of traces; of others one row, or none."""
    traced = traced_ranks.or_none(facts)
    return _table(traced) if traced else rank_table(facts)


def _table(traced: TracedRanks) -> RankTable:
    return table_of_traces(traced.each, 0, traced.problems)


def _in_collectives(traced: TracedRanks) -> dict[int, int | None]:
    return {one.rank: one.collective_time for one in traced.each}


def _waits(facts: Facts) -> dict[int, dict[int, int]] | None:
    """By rank that waits and rank that it waits for; None if unknown."""
    waits = waits_of_ranks.or_none(facts)
    if waits is None:
        return None
    known = waits.compared
    return {
        rank: {late: waits.between(rank, late) for late in known if late != rank} for rank in known
    }


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
