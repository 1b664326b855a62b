"""The rank that the others wait for, and the part of its step in which it falls behind."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perftui.analysis.model import GapCause
from perftui.analysis.steps import COMPUTE
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.facts.place import Place
from perftui.facts.ranks.collectives import collectives_of_ranks
from perftui.facts.ranks.rank_table import (
    STRAGGLER_WARNING,
    WAITS_IN,
    WAITS_IN_TRACE,
    RankTable,
    SlowRank,
    compared,
    lags_of,
    rank_table,
    some_ranks,
)
from perftui.facts.ranks.traced_ranks import (
    CausedWaits,
    TracedRank,
    traced_ranks,
    waits_between,
    waits_of_ranks,
)
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import idle_place, part_lines
from perftui.facts.step.steps import steady_step
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.text import printable

IDLE = "device idle"
"""All causes of idle time together, as a part in which a rank falls behind."""


@fact
def trace_straggler(facts: Facts) -> SlowRank:
    """The rank that causes most waits among those that share collectives with the open one.

    ``lag`` is how long the open rank waits for it in a mean step; if the open rank itself is late,
    how long each other rank waits. Not applicable if there are no other ranks. Unknown if their
    traces are missing, or their collectives do not match."""
    traced, waits = traced_ranks(facts), waits_of_ranks(facts)
    if traced.shown not in waits.compared:
        raise UnknownError(f"the collectives of rank {traced.shown} match those of no other rank")
    return straggler_among(traced.each, waits, traced.shown, waits.latest(traced.shown))


def straggler_among(
    ranks: Sequence[TracedRank], waits: CausedWaits, shown: int, late: int
) -> SlowRank:
    """How long rank ``late`` makes rank ``shown`` wait, and the part of its step that is longer."""
    return SlowRank(late, waits.between(shown, late), *_longer_part(ranks, waits, late))


def _longer_part(ranks: Sequence[TracedRank], waits: CausedWaits, late: int) -> tuple[str, int]:
    """The part of the late rank's step that exceeds the others' by at least half of their wait, and
    its excess, ns; several idle causes may do so together. Empty without one: the rank was late
    before its step, or the others wait within the same part."""
    lags = _lags(ranks, waits, late)
    lags[IDLE] = sum({name: ns for name, ns in lags.items() if name in set(GapCause)}.values())
    least = waits.between(late, late) / 2
    singly = max((name for name in lags if name != IDLE), key=lambda name: lags[name], default="")
    for name in (singly, IDLE):
        if name and lags[name] >= least:
            return name, lags[name]
    return "", 0


def _lags(ranks: Sequence[TracedRank], waits: CausedWaits, late: int) -> dict[str, int]:
    """Excess of each part of the late rank's step over the median other rank's, ns."""
    rows = {rank.rank: rank.row for rank in ranks if rank.rank in waits.compared}
    lags = lags_of(rows.pop(late), list(rows.values()))
    waiting = (WAITS_IN_TRACE, GapCause.QUEUED.value)
    return {name: lag for name, lag in lags.items() if name not in waiting}


@fact
def straggler_place(facts: Facts) -> Place:
    """Where the late rank falls behind: the line, operator or kernel, if its trace shows it."""
    late, traced = trace_straggler(facts), traced_ranks(facts)
    cause = late.part
    if cause == IDLE:
        lags = _lags(traced.each, waits_of_ranks(facts), late.rank)
        cause = max((other.value for other in GapCause), key=lambda name: lags.get(name, 0))
    if late.part == COMPUTE:
        return Place(late.rank, operator=_longer_kernel(traced.each, late.rank))
    nowhere = Place(late.rank)
    if cause not in set(GapCause):
        return nowhere
    own = facts if late.rank == traced.shown else _opened(traced.path(late.rank))
    steps = trace_steps.or_none(own) if own else None
    if own is None or steps is None:
        return nowhere
    try:
        place = idle_place(own, GapCause(cause), steps) or nowhere
    except UnknownError:
        return nowhere
    return replace(nowhere, operator=place.operator, file=place.file, line=place.line)


def table_of_traces(
    ranks: Sequence[TracedRank], missing: int, problems: Sequence[str]
) -> RankTable:
    """``ranks`` read so far, by number; ``missing`` of them have not been read yet."""
    notes = ["each trace has its own clock: durations are compared, not times"]
    whole = [rank.rank for rank in ranks if rank.row.mean and not rank.row.steps]
    if whole:
        shown = some_ranks(whole)
        notes.append(f"no steps are marked in the trace of rank {shown}: the whole trace is shown")
    notes += problems
    ordered = sorted(ranks, key=lambda rank: rank.rank)
    rows = tuple(rank.row for rank in ordered)
    if missing:
        # A verdict on some of the ranks might have to be withdrawn.
        return RankTable(rows, notes=tuple(notes))
    by_times = compared(rows, tuple(notes))
    try:
        waits = waits_between(ordered)
    except UnknownError:
        return by_times
    late = straggler_among(ordered, waits, waits.latest(), waits.latest())
    usual = _median(row.mean for row in rows)
    caused = {rank: waits.caused(rank) for rank in waits.compared}
    return replace(
        by_times,
        rows=tuple(replace(row, caused=caused.get(row.rank)) for row in rows),
        straggler=late if late.lag >= STRAGGLER_WARNING * usual else None,
        holds_up=True,
    )


def _longer_kernel(ranks: Sequence[TracedRank], late: int) -> str | None:
    """The kernel with the largest excess of the late rank over the others."""
    own = next(rank.kernels for rank in ranks if rank.rank == late)
    others = [rank.kernels for rank in ranks if rank.rank != late]
    longer = {name: ns - _median(each.get(name, 0) for each in others) for name, ns in own.items()}
    name = max(longer, key=lambda name: longer[name], default=None)
    return printable(name) if name is not None and longer[name] > 0 else None


def _median(values: Iterable[int]) -> int:
    return statistics.median_low(list(values))


def _opened(path: Path) -> Facts | None:
    """Facts of another rank's trace; None if it can no longer be read."""
    from perftui.analysis.open_trace import open_trace
    from perftui.trace.model import TraceError

    try:
        return Facts(None, open_trace(path))
    except (TraceError, OSError):
        return None


LEAST_LAG = 0.05
"""Share of the step by which a rank must be behind to be named: equal ranks of one machine differ
by less."""


@fact
def slow_rank(facts: Facts) -> SlowRank | None:
    """The slow rank, by the collectives in the ranks' windows, else by their times outside
    backward, in which they wait; in a directory of traces by the waits each rank causes. None if no
    rank is behind. Not applicable with one process. Unknown if the other ranks' traces are missing
    or do not match."""
    if facts.run is None:
        late, steps = trace_straggler(facts), trace_steps(facts)
        if steps is None or late.lag < LEAST_LAG * steps.step_ns:
            return None
        together = {
            rank.rank: rank.collective_time
            for rank in traced_ranks(facts).each
            if rank.collective_time is not None
        }
        return replace(late, collectives=together)
    if facts.run.world < 2:
        raise NotApplicableError
    table, step = rank_table(facts), steady_step(facts)
    spent = collectives_of_ranks.or_none(facts)
    by_windows = _by_collectives(spent, table) if spent else None
    by_times = None
    if table.straggler is not None and table.holds_up:
        # The rank by its excess in any part but backward.
        by_times = replace(table.straggler, collectives=spent or {})
    chosen = by_times or by_windows
    if by_times and by_windows and by_times.rank == by_windows.rank:
        # Backward is longer on it as well, which only its collectives show.
        chosen = replace(by_times, lag=max(by_times.lag, by_windows.lag))
    return chosen if chosen and chosen.lag >= LEAST_LAG * step.mean else None


@fact
def slow_line(facts: Facts) -> LineShare | None:
    """The line with the slow rank's largest excess over the others, in the part in which it falls
    behind; None with too few samples."""
    slow = slow_rank(facts)
    if slow is None or not slow.part or facts.run is None:
        return None
    rows = {row.rank: row.part(slow.part) for row in rank_table(facts).rows}
    lines_of = {rank: _by_line(facts.of_rank(rank), slow.part, ns) for rank, ns in rows.items()}
    own = lines_of.pop(slow.rank, {})
    # In backward the others wait for it: their lines there are no measure.
    of_others = [lines for lines in lines_of.values() if lines and slow.part != WAITS_IN]
    more = {
        line: ns - _median([lines.get(key, (line, 0))[1] for lines in of_others] or [0])
        for key, (line, ns) in own.items()
    }
    return max(more, key=lambda line: more[line], default=None)


def _by_line(facts: Facts, part: str, ns: int) -> dict[tuple[str, int], tuple[LineShare, int]]:
    """The user's lines in a part of ``ns``, each with its share of that time, ns."""
    thread = part_lines(facts, part)
    if thread is None:
        return {}
    own = (line for line in thread.lines if line.file)
    return {(line.file, line.line): (line, round(thread.share(line) * ns)) for line in own}


def _by_collectives(spent: Mapping[int, int], table: RankTable) -> SlowRank:
    """The rank with the least time in collectives comes last to them. An excess that its own times
    do not show is in backward, where it also waits for others."""
    last = min(spent, key=lambda rank: (spent[rank], rank))
    lag = _median(time for rank, time in spent.items() if rank != last) - spent[last]
    rows = {row.rank: row for row in table.rows}
    own = rows.pop(last, None)
    lags = lags_of(own, list(rows.values())) if own else {}
    lags.pop(WAITS_IN, None)
    part = max(lags, key=lambda name: lags[name], default="")
    if not part or 2 * lags[part] < lag:
        return SlowRank(last, lag, WAITS_IN, lag, spent)
    return SlowRank(last, lag, part, lags[part], spent)
