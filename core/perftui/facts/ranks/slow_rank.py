"""The rank that the others wait for, and in which part of its step it falls behind."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from perftui.facts.fact import Facts, NotApplicableError, fact
from perftui.facts.ranks.communication import collectives_of_ranks
from perftui.facts.ranks.rank_table import WAITS_IN, RankTable, rank_table
from perftui.facts.ranks.trace_straggler import trace_straggler
from perftui.facts.ranks.traced_ranks import traced_ranks
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import part_lines
from perftui.facts.step.steps import steady_step
from perftui.facts.step.trace_steps import trace_steps

LEAST_LAG = 0.05
"""Share of the step by which a rank must be behind to be named: equal ranks of one machine differ
by less."""


@dataclass(frozen=True)
class SlowRank:
    """The rank that arrives last at the collectives."""

    rank: int
    lag: int
    """How much longer its step without waiting is than that of the median other rank, ns; of traces
    what the rank that is shown waits for it."""
    part: str
    """The part of its step that is longer by most; empty where that is not known."""
    part_lag: int
    collectives: Mapping[int, int] = field(default_factory=dict)
    """By rank the mean time of a step in collectives, ns; empty without windows."""


@fact
def slow_rank(facts: Facts) -> SlowRank | None:
    """By what the windows of the ranks show of their collectives, else by their own times outside
    backward, in which they wait; of a directory of traces by the waits that each rank causes. None
    where none is behind.

    Raises:
        NotApplicableError: one process trains.
        UnknownError: the traces of the other ranks are missing or do not match.
    """
    if facts.run is None:
        return _by_traces(facts)
    if facts.run.world < 2:
        raise NotApplicableError
    table, step = rank_table(facts), steady_step(facts)
    spent = collectives_of_ranks.or_none(facts)
    by_windows = _by_collectives(spent, table) if spent else None
    by_times = _by_own_times(table, spent or {})
    chosen = by_times or by_windows
    if by_times and by_windows and by_times.rank == by_windows.rank:
        # Backward is longer on it as well: only its collectives show that.
        chosen = replace(by_times, lag=max(by_times.lag, by_windows.lag))
    return chosen if chosen and chosen.lag >= LEAST_LAG * step.mean else None


@fact
def slow_line(facts: Facts) -> LineShare | None:
    """The line at which the slow rank is longer than the others by most, in the part in which it
    falls behind; None with too few samples."""
    slow = slow_rank(facts)
    if slow is None or not slow.part or facts.run is None:
        return None
    rows = {row.rank: row.part(slow.part) for row in rank_table(facts).rows}
    taken = {rank: _by_line(facts.of_rank(rank), slow.part, ns) for rank, ns in rows.items()}
    # In backward the others wait for it: what they do there is no measure.
    of_others = [
        lines
        for rank, lines in taken.items()
        if lines and rank != slow.rank and slow.part != WAITS_IN
    ]
    more = {
        line: ns
        - statistics.median_low([lines.get(key, (line, 0))[1] for lines in of_others] or [0])
        for key, (line, ns) in taken.get(slow.rank, {}).items()
    }
    return max(more, key=lambda line: more[line], default=None)


def _by_line(facts: Facts, part: str, ns: int) -> dict[tuple[str, int], tuple[LineShare, int]]:
    """What lines of the user's take of a part of so many ns."""
    thread = part_lines(facts, part)
    if thread is None:
        return {}
    own = (line for line in thread.lines if line.file)
    return {(line.file, line.line): (line, round(thread.share(line) * ns)) for line in own}


def _by_traces(facts: Facts) -> SlowRank | None:
    """The late rank, and what the rank whose trace is open waits for it."""
    late, steps = trace_straggler(facts), trace_steps(facts)
    if steps is None or late.lag < LEAST_LAG * steps.step_ns:
        return None
    spent = {
        one.rank: one.collective_time
        for one in traced_ranks(facts).each
        if one.collective_time is not None
    }
    return SlowRank(late.rank, late.lag, late.part, late.part_lag, spent)


def _by_own_times(table: RankTable, spent: Mapping[int, int]) -> SlowRank | None:
    """The slow rank by what it does longer in any other part than backward; None without one."""
    slow = table.straggler
    if slow is None or not slow.holds_up:
        return None
    return SlowRank(slow.rank, slow.lag, slow.part, slow.part_lag, spent)


def _by_collectives(spent: Mapping[int, int], table: RankTable) -> SlowRank:
    """Who spends least time in collectives comes last to them. What its own times do not show
    longer happens where it waits for others as well, in backward."""
    last = min(spent, key=lambda rank: (spent[rank], rank))
    lag = (
        statistics.median_low([time for rank, time in spent.items() if rank != last]) - spent[last]
    )
    rows = {row.rank: row for row in table.rows}
    lags = {
        name: ns - statistics.median_low([row.part(name) for row in table.rows if row.rank != last])
        for name, ns in (rows[last].parts if last in rows else ())
        if name != WAITS_IN
    }
    part = max(lags, key=lambda name: lags[name], default="")
    if not part or 2 * lags[part] < lag:
        return SlowRank(last, lag, WAITS_IN, lag, spent)
    return SlowRank(last, lag, part, lags[part], spent)
