"""The traces of all ranks of a directory: the steps of each, and how long each waits for which.

Whoever has come to a collective waits for the one that comes last. Where that one itself waited
meanwhile, in a collective of another group, so much of the wait is due to the rank it waited for:
never to one that waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.facts.ranks.collectives import MOST_RANKS, collective_time
from perftui.facts.ranks.matched_collectives import (
    Meetings,
    RankCollectives,
    match_collectives,
    rank_collectives,
)
from perftui.facts.ranks.rank_table import WAITS_IN_TRACE, RankRow, rank_row
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.model import KERNEL, Int64, Mask
from perftui.trace.remote import RemoteFile, at_hand, remote_of


@dataclass(frozen=True, eq=False)
class CausedWaits:
    """Waits in all ``steps`` together: a row for each of ``ranks`` that waits, a column for each
    that it waits for; ns in which the waiting rank computes nothing. None waits for itself."""

    ranks: tuple[int, ...]
    waits: Int64
    steps: int
    collectives: int
    """How many were compared."""
    linked: Mask
    """Which ranks meet each other in collectives, or wait for each other through others."""
    apart: tuple[int, ...] = ()
    """Ranks that could not be compared, for they do other collectives."""

    @property
    def compared(self) -> tuple[int, ...]:
        """The ranks that were."""
        return tuple(rank for rank in self.ranks if rank not in self.apart)

    def caused(self, rank: int) -> int:
        """What ``rank`` makes all others wait in a mean step, in sum."""
        return int(self.waits[:, self.ranks.index(rank)].sum()) // self.steps

    def waited(self, rank: int) -> int:
        """What ``rank`` waits in a mean step, for whomever."""
        return int(self.waits[self.ranks.index(rank)].sum()) // self.steps

    def between(self, waiting: int, late: int) -> int:
        """What ``waiting`` waits for ``late`` in a mean step; of ``late`` itself what each of the
        others waits for it in the mean."""
        if waiting == late:
            return self.caused(late) // max(len(self._linked(late)) - 1, 1)
        at = self.ranks.index(waiting), self.ranks.index(late)
        return int(self.waits[at]) // self.steps

    def latest(self, among: int | None = None) -> int:
        """The rank that makes the others wait for longest, all together; of those that ``among``
        meets, where that is given."""
        ranks = self.compared if among is None else self._linked(among)
        return max(ranks, key=lambda rank: (self.caused(rank), -rank))

    def _linked(self, rank: int) -> tuple[int, ...]:
        """``rank`` itself and those that it meets."""
        row = self.linked[self.ranks.index(rank)].tolist()
        return tuple(
            one for one, known in zip(self.ranks, row, strict=True) if known or one == rank
        )


def caused_waits(of_ranks: Mapping[int, RankCollectives]) -> CausedWaits:
    """Who waits for whom, by the collectives of each rank. Unknown if they do not match."""
    found = match_collectives(of_ranks)
    last, lost = _last(found), np.zeros(found.start.shape, dtype=np.int64)
    for column, rank in enumerate(found.ranks):
        lost[:, column] = _lost(found, column, last[:, column], of_ranks[rank])
    waits = _blamed(found, last, lost)
    np.fill_diagonal(waits, 0)
    met = found.there.T.astype(np.int64) @ found.there.astype(np.int64) + waits + waits.T
    return CausedWaits(
        found.ranks, waits, found.steps, len(found.start), met > 0, apart=found.apart
    )


def _last(found: Meetings) -> Int64:
    """By collective and rank, whom it waits for: the last that comes before it leaves, which may
    be itself. Whoever leaves a broadcast early waits for none that come later."""
    never = np.iinfo(np.int64).min
    columns = []
    for column in range(len(found.ranks)):
        left = found.start > found.end[:, [column]]
        before = found.there & (found.together[:, np.newaxis] | ~left)
        columns.append(np.where(before, found.start, never).argmax(axis=1))
    return np.stack(columns, axis=1)


def _lost(found: Meetings, column: int, last: Int64, of_rank: RankCollectives) -> Int64:
    """What the rank in ``column`` waits in each collective: time in two of them at once counts in
    the one that it came to first, and time in which it computes is not lost."""
    lost = np.zeros(len(last), dtype=np.int64)
    rows = np.flatnonzero(found.there[:, column])
    start = found.start[rows, column]
    end = np.minimum(found.start[rows, last[rows]], found.end[rows, column])
    order = np.argsort(start, kind="stable")
    rows, start, end = rows[order], start[order], end[order]
    reach = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    start = np.maximum(start, reach)
    end = np.maximum(start, end)
    shift = found.clock[column]
    lost[rows] = end - start - of_rank.computing.within(start - shift, end - shift)
    return lost


def _blamed(found: Meetings, last: Int64, lost: Int64) -> Int64:
    """Who waits for whom, in sum. What a rank waited longer than another since both were last
    together made it come later by so much: for that those are to blame that it waited for."""
    count = len(found.ranks)
    waits = np.zeros((count, count), dtype=np.int64)
    if len(np.unique(found.group)) == 1:
        rows, columns = np.nonzero(lost)
        np.add.at(waits, (columns, last[rows, columns]), lost[rows, columns])
        return waits
    when_together: dict[int, Int64] = {}
    for row, group in enumerate(found.group.tolist()):
        since = waits - when_together.get(group, 0)
        for column in np.flatnonzero(found.there[row] & (lost[row] > 0)).tolist():
            late, wait = int(last[row, column]), int(lost[row, column])
            # What the late rank waited itself for each other, less what the waiting rank did: the
            # part of the wait that it passes on, by the rank that it is due to.
            longer = since[late] - since[column]
            due = np.maximum(longer, 0)
            passed = due * min(wait, max(int(longer.sum()), 0)) // max(int(due.sum()), 1)
            waits[column] += passed
            waits[column, late] += wait - int(passed.sum())
        when_together[group] = waits.copy()
    return waits


@dataclass(frozen=True, eq=False)
class TracedRank:
    """What is kept of one rank's trace."""

    row: RankRow
    path: Path
    collectives: RankCollectives | None
    """None where it has none."""
    collective_time: int | None
    """Mean time of a step in collectives, ns; None where no step has any."""
    kernels: Mapping[str, int] = field(default_factory=dict)
    """ns of the kernels of each name, in all of the trace."""

    @property
    def rank(self) -> int:
        """Its number."""
        return self.row.rank


@dataclass(frozen=True)
class TracedRanks:
    """All ranks whose traces could be read, by number."""

    each: tuple[TracedRank, ...]
    shown: int
    """The rank whose trace is open."""
    problems: tuple[str, ...] = ()
    """What could not be read, in words."""
    missing: tuple[int, ...] = ()
    """Ranks of the training that have no trace, or none that could be read."""

    def path(self, rank: int) -> Path:
        """The trace of that rank."""
        return next(one.path for one in self.each if one.rank == rank)


@fact
def traced_ranks(facts: Facts) -> TracedRanks:
    """The ranks beside the trace that is open, and itself; they are read one after the other. Not
    applicable to a run, or a training without other ranks. Unknown if the other ranks have no
    traces there, or none that can be read."""
    opened, beside = facts.analysis, facts.beside
    if facts.run is not None or opened is None:
        raise NotApplicableError
    calls = kinds.communication(opened.trace) | kinds.host_collectives(opened.trace)
    if len(beside) < 2 and _world(opened) < 2 and not calls.any():
        raise NotApplicableError
    if len(beside) < 2:
        unread = (
            "have not been read; for a directory of traces the report and the Ranks screen read "
            "them"
        )
        raise UnknownError(f"the traces of the other ranks {'are missing' if beside else unread}")
    shown = next((rank for rank, path in beside if path == opened.trace.path), beside[0][0])
    chosen = [one for one in beside[:MOST_RANKS] if one[0] != shown]
    each, problems = [rank_of_trace(opened, shown)], []
    for rank, path in chosen:
        found = read_rank_or_reason(remote_of(path) or path, rank)
        if isinstance(found, str):
            problems.append(found)
        else:
            each.append(found)
    if len(beside) > len(chosen) + 1:
        problems.append(f"the traces of {len(chosen) + 1} of {len(beside)} ranks are compared")
    world = max(_world(opened), beside[-1][0] + 1)
    return _together(each, shown, world, problems)


def facts_beside(
    analysis: TraceAnalysis, ranks: Sequence[TracedRank], problems: Sequence[str]
) -> Facts:
    """Facts of a trace, where it and those of the other ``ranks`` have been read already;
    ``problems`` lists those that could not be."""
    facts = Facts(None, analysis, beside=tuple((one.rank, one.path) for one in ranks))
    shown = next((one.rank for one in ranks if one.path == analysis.trace.path), None)
    if shown is not None and len(ranks) + len(problems) > 1:
        world = max(_world(analysis), *(one.rank + 1 for one in ranks))
        try:
            facts.worked_out[traced_ranks] = _together(ranks, shown, world, problems)
        except UnknownError as error:
            facts.worked_out[traced_ranks] = error.with_traceback(None)
    return facts


def _together(
    ranks: Sequence[TracedRank], shown: int, world: int, problems: Sequence[str]
) -> TracedRanks:
    if len(ranks) < 2:
        raise UnknownError(f"no trace of another rank can be read: {problems[0]}")
    known = {one.rank for one in ranks}
    missing = tuple(rank for rank in range(world) if rank not in known)
    ordered = sorted(ranks, key=lambda one: one.rank)
    return TracedRanks(tuple(ordered), shown, tuple(problems), missing)


def read_rank_or_reason(
    place: Path | RemoteFile,
    rank: int,
    cancelled: Callable[[], bool] | None = None,
    directory: Path | None = None,
) -> TracedRank | str:
    """The rank whose trace is at ``place``, or the sentence about why it is left out.

    A remote trace is copied to ``directory`` for so long, or to a usual one.

    Raises:
        LoadCancelled: ``cancelled`` returned true.
    """
    from perftui.trace.model import TraceError

    path = place if isinstance(place, Path) else place.stand_in
    try:
        with at_hand(place, cancelled, directory) as whole:
            return replace(read_rank(whole, rank, cancelled, kept=whole == path), path=path)
    except (TraceError, OSError) as error:
        return unread(rank, str(error))


def unread(rank: int, why: str) -> str:
    """The sentence about a rank that is left out."""
    return f"rank {rank} cannot be read: {why}"


def _world(analysis: TraceAnalysis) -> int:
    """How many ranks train, as the file says; 0 where it does not."""
    info = analysis.trace.metadata.get("distributedInfo")
    size = info.get("world_size") if isinstance(info, Mapping) else None
    return size if isinstance(size, int) else 0


def read_rank(
    path: Path, rank: int, cancelled: Callable[[], bool] | None = None, *, kept: bool = True
) -> TracedRank:
    """The steps of ``rank`` from its trace at ``path``, which is cached only where it is ``kept``.

    Raises:
        TraceError: it cannot be read.
        OSError: it cannot be opened.
        LoadCancelled: ``cancelled`` returned true.
    """
    from perftui.analysis.open_trace import never, open_trace

    opened = open_trace(path, cancelled=cancelled, later=None if kept else never)
    found = rank_of_trace(opened, rank)
    # Facts of the trace refer to it: it would stay until the collector ran, beside the next one.
    opened.worked_out.clear()
    return found


def rank_of_trace(analysis: TraceAnalysis, rank: int) -> TracedRank:
    """The steps of ``rank`` from its opened trace ``analysis``."""
    steps = trace_steps(analysis)
    breakdown = steps.breakdown if steps else None
    row = rank_row(rank, "", len(analysis.steps), breakdown, WAITS_IN_TRACE)
    its = Facts(None, analysis)
    known, time = rank_collectives.or_none(its), collective_time.or_none(its)
    table = analysis.kernels
    kernels = {
        name: int(ns)
        for name, kind, ns in zip(table.names, table.categories, table.total, strict=True)
        if kind == KERNEL
    }
    return TracedRank(row, analysis.trace.path, known, time, kernels)


@fact
def waits_of_ranks(facts: Facts) -> CausedWaits:
    """Who of the ranks of a directory waits for whom. Not applicable if there are no other ranks.
    Unknown if their traces are missing, or their collectives do not match."""
    return waits_between(traced_ranks(facts).each)


def waits_between(ranks: Sequence[TracedRank]) -> CausedWaits:
    """Who of ``ranks`` waits for whom. Unknown if fewer than two have collectives, or they do not
    match."""
    known = {one.rank: one.collectives for one in ranks if one.collectives is not None}
    if len(known) < 2:
        raise UnknownError("the traces of fewer than two ranks have collectives")
    return caused_waits(known)
