"""The traces of all ranks of a directory: the steps of each, and how long each waits for which.

Ranks at a collective wait for the last one. If the last one itself waited meanwhile, in a
collective of another group, that part of the wait is due to the rank it waited for: never to a rank
that waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import Facts, NotApplicableError, RankPaths, UnknownError, cached, fact
from perftui.facts.ranks.collectives import MOST_RANKS, collective_time
from perftui.facts.ranks.matched_collectives import (
    Meetings,
    RankCollectives,
    match_collectives,
    rank_collectives,
)
from perftui.facts.ranks.rank_table import WAITS_IN_TRACE, RankRow, rank_row
from perftui.facts.step.trace_steps import trace_steps
from perftui.telemetry.limits import usable_cores, usable_memory
from perftui.trace.model import KERNEL, Int64, Mask
from perftui.trace.remote import RemoteFile, at_hand, remote_of


@dataclass(frozen=True, eq=False)
class CausedWaits:
    """Waits in all ``steps`` together: a row for each of ``ranks`` that waits, a column for each
    that it waits for; ns in which the waiting rank does not compute. The diagonal is zero."""

    ranks: tuple[int, ...]
    waits: Int64
    steps: int
    linked: Mask
    """Which ranks meet in collectives, or wait for each other through others."""
    apart: tuple[int, ...] = ()
    """Ranks without comparable collectives, as they call other ones."""

    @property
    def compared(self) -> tuple[int, ...]:
        """The ranks that were compared."""
        return tuple(rank for rank in self.ranks if rank not in self.apart)

    def caused(self, rank: int) -> int:
        """Total time that ``rank`` makes all others wait in a mean step, ns."""
        return int(self.waits[:, self.ranks.index(rank)].sum()) // self.steps

    def waited(self, rank: int) -> int:
        """Time that ``rank`` waits for any other in a mean step, ns."""
        return int(self.waits[self.ranks.index(rank)].sum()) // self.steps

    def between(self, waiting: int, late: int) -> int:
        """Time that ``waiting`` waits for ``late`` in a mean step, ns; for ``late`` itself the mean
        wait of the others for it."""
        if waiting == late:
            return self.caused(late) // max(len(self._linked(late)) - 1, 1)
        return int(self.waits[self.ranks.index(waiting), self.ranks.index(late)]) // self.steps

    def latest(self, among: int | None = None) -> int:
        """The rank that causes most waiting in total; with ``among``, of the ranks linked to that
        one."""
        ranks = self.compared if among is None else self._linked(among)
        return max(ranks, key=lambda rank: (self.caused(rank), -rank))

    def _linked(self, rank: int) -> tuple[int, ...]:
        """``rank`` itself and the ranks linked to it."""
        row = self.linked[self.ranks.index(rank)].tolist()
        return tuple(
            other for other, met in zip(self.ranks, row, strict=True) if met or other == rank
        )


def caused_waits(of_ranks: Mapping[int, RankCollectives]) -> CausedWaits:
    """Waits between ranks, from the collectives of each. Unknown if they do not match."""
    meetings = match_collectives(of_ranks)
    last, lost = _last(meetings), np.zeros(meetings.start.shape, dtype=np.int64)
    for column, rank in enumerate(meetings.ranks):
        lost[:, column] = _waits_of(meetings, column, last[:, column], of_ranks[rank])
    waits = _total_waits(meetings, last, lost)
    np.fill_diagonal(waits, 0)
    linked = meetings.there.T.astype(np.int64) @ meetings.there.astype(np.int64) + waits + waits.T
    return CausedWaits(meetings.ranks, waits, meetings.steps, linked > 0, meetings.apart)


def _last(meetings: Meetings) -> Int64:
    """Index of the rank each rank waits for, by collective: the last to come before it leaves,
    perhaps itself. A rank that leaves a broadcast early does not wait for later ones."""
    never = np.iinfo(np.int64).min
    columns = []
    for column in range(len(meetings.ranks)):
        left = meetings.start > meetings.end[:, [column]]
        before = meetings.there & (meetings.together[:, np.newaxis] | ~left)
        columns.append(np.where(before, meetings.start, never).argmax(axis=1))
    return np.stack(columns, axis=1)


def _waits_of(meetings: Meetings, column: int, last: Int64, of_rank: RankCollectives) -> Int64:
    """Wait of the rank in ``column`` in each collective, ns: overlapping time counts in the first
    one, time in which the rank computes is not lost."""
    lost = np.zeros(len(last), dtype=np.int64)
    rows = np.flatnonzero(meetings.there[:, column])
    start = meetings.start[rows, column]
    end = np.minimum(meetings.start[rows, last[rows]], meetings.end[rows, column])
    order = np.argsort(start, kind="stable")
    rows, start, end = rows[order], start[order], end[order]
    start = np.maximum(start, np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]]))
    end = np.maximum(start, end)
    shift = meetings.clock[column]
    lost[rows] = end - start - of_rank.computing.within(start - shift, end - shift)
    return lost


def _total_waits(meetings: Meetings, last: Int64, lost: Int64) -> Int64:
    """Total waits of each rank for each other. If a late rank waited longer than another since
    their last meeting, it is late by that much because of the ranks it waited for."""
    count = len(meetings.ranks)
    waits = np.zeros((count, count), dtype=np.int64)
    if len(np.unique(meetings.group)) == 1:
        rows, columns = np.nonzero(lost)
        np.add.at(waits, (columns, last[rows, columns]), lost[rows, columns])
        return waits
    when_together: dict[int, Int64] = {}
    for row, group in enumerate(meetings.group.tolist()):
        since = waits - when_together.get(group, 0)
        for column in np.flatnonzero(meetings.there[row] & (lost[row] > 0)).tolist():
            late, wait = int(last[row, column]), int(lost[row, column])
            # What the late rank waited for each other rank, less what the waiting rank did, is the
            # part of the wait that it passes on to those ranks.
            longer = since[late] - since[column]
            due = np.maximum(longer, 0)
            passed = due * min(wait, max(int(longer.sum()), 0)) // max(int(due.sum()), 1)
            waits[column] += passed
            waits[column, late] += wait - int(passed.sum())
        when_together[group] = waits.copy()
    return waits


@dataclass(frozen=True, eq=False)
class TracedRank:
    """What is needed of one rank's trace."""

    row: RankRow
    path: Path
    collectives: RankCollectives | None
    """None without collectives."""
    collective_time: int | None
    """Mean ns per step in collectives; None if no step has any."""
    kernels: Mapping[str, int] = field(default_factory=dict)
    """ns of the kernels of each name, in the whole trace."""

    @property
    def rank(self) -> int:
        """Number of the rank."""
        return self.row.rank


@dataclass(frozen=True)
class TracedRanks:
    """All ranks with readable traces, by number."""

    each: tuple[TracedRank, ...]
    shown: int
    """The rank whose trace is open."""
    problems: tuple[str, ...] = ()
    """What could not be read, in words."""
    missing: tuple[int, ...] = ()
    """Ranks of the training without a readable trace."""

    def path(self, rank: int) -> Path:
        """Path of that rank's trace."""
        return next(traced.path for traced in self.each if traced.rank == rank)


@fact
def traced_ranks(facts: Facts) -> TracedRanks:
    """The rank of the open trace and the ranks beside it, read one after the other. Not applicable
    to a run, or a training without other ranks. Unknown if the others have no readable traces."""
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
    chosen = [other for other in beside[:MOST_RANKS] if other[0] != shown]
    ranks, problems = [rank_of_trace(opened, shown)], []
    for rank, path in chosen:
        _, result = read_one(remote_of(path) or path, rank)
        if isinstance(result, str):
            problems.append(result)
        else:
            ranks.append(result)
    if len(beside) > len(chosen) + 1:
        problems.append(f"the traces of {len(chosen) + 1} of {len(beside)} ranks are compared")
    return _together(ranks, shown, max(_world(opened), beside[-1][0] + 1), problems)


def facts_beside(
    analysis: TraceAnalysis, ranks: Sequence[TracedRank], problems: Sequence[str]
) -> Facts:
    """Facts of a trace, if it and the other ``ranks`` have already been read; ``problems`` lists
    unreadable ones."""
    facts = Facts(None, analysis, beside=tuple((rank.rank, rank.path) for rank in ranks))
    shown = next((rank.rank for rank in ranks if rank.path == analysis.trace.path), None)
    if shown is not None and len(ranks) + len(problems) > 1:
        world = max(_world(analysis), *(rank.rank + 1 for rank in ranks))
        with suppress(UnknownError):
            cached(traced_ranks, facts.worked_out, lambda: _together(ranks, shown, world, problems))
    return facts


def _together(
    ranks: Sequence[TracedRank], shown: int, world: int, problems: Sequence[str]
) -> TracedRanks:
    if len(ranks) < 2:
        raise UnknownError(f"no trace of another rank can be read: {problems[0]}")
    numbers = {rank.rank for rank in ranks}
    missing = tuple(rank for rank in range(world) if rank not in numbers)
    ordered = sorted(ranks, key=lambda rank: rank.rank)
    return TracedRanks(tuple(ordered), shown, tuple(problems), missing)


ReadRank = tuple[int, TracedRank | str]
"""A rank with its trace's contents, or with the sentence on why it is left out."""


def read_one(
    place: Path | RemoteFile,
    rank: int,
    cancelled: Callable[[], bool] | None = None,
    directory: Path | None = None,
) -> ReadRank:
    """The rank whose trace is at ``place``. A remote trace is copied to ``directory``, or a default
    one, while it is read. Raises LoadCancelled if ``cancelled`` returned true."""
    from perftui.analysis.open_trace import never, open_trace
    from perftui.trace.model import TraceError

    path = place if isinstance(place, Path) else place.stand_in
    try:
        with at_hand(place, cancelled, directory) as whole:
            # A copy is gone once it is read: nothing of it is cached.
            opened = open_trace(whole, cancelled=cancelled, later=None if whole == path else never)
            result = rank_of_trace(opened, rank)
            # Facts of the trace refer to it: it would stay in memory with the next one, until
            # collected.
            opened.worked_out.clear()
            return rank, replace(result, path=path)
    except (TraceError, OSError) as error:
        return rank, unread(rank, str(error))


def unread(rank: int, why: str) -> str:
    """The sentence about a rank that is left out."""
    return f"rank {rank} cannot be read: {why}"


def _world(analysis: TraceAnalysis) -> int:
    """Number of ranks that train, by the file; 0 if not in it."""
    info = analysis.trace.metadata.get("distributedInfo")
    size = info.get("world_size") if isinstance(info, Mapping) else None
    return size if isinstance(size, int) else 0


def rank_of_trace(analysis: TraceAnalysis, rank: int) -> TracedRank:
    """The steps of ``rank`` from its opened trace ``analysis``."""
    steps = trace_steps(analysis)
    breakdown = steps.breakdown if steps else None
    row = rank_row(rank, "", len(analysis.steps), breakdown, WAITS_IN_TRACE)
    facts = Facts(None, analysis)
    calls, time = rank_collectives.or_none(facts), collective_time.or_none(facts)
    table = analysis.kernels
    kernels = {
        name: int(ns)
        for name, kind, ns in zip(table.names, table.categories, table.total, strict=True)
        if kind == KERNEL
    }
    return TracedRank(row, analysis.trace.path, calls, time, kernels)


@fact
def waits_of_ranks(facts: Facts) -> CausedWaits:
    """Which ranks of a directory wait for which. Not applicable if there are no other ranks.
    Unknown if their traces are missing, or their collectives do not match."""
    return waits_between(traced_ranks(facts).each)


def waits_between(ranks: Sequence[TracedRank]) -> CausedWaits:
    """Which of ``ranks`` wait for which. Unknown if fewer than two have collectives, or they do not
    match."""
    calls = {rank.rank: rank.collectives for rank in ranks if rank.collectives is not None}
    if len(calls) < 2:
        raise UnknownError("the traces of fewer than two ranks have collectives")
    return caused_waits(calls)


WORTH_PROCESSES = 100 << 20
"""Total bytes of text from which processes pay off: a fifth is read in the second that one takes to
start."""

GZIP_RATIO = 12
"""Bytes of text per byte of a compressed trace, at most in the traces at hand."""

MEMORY_PER_TEXT = 0.4
"""Most bytes of memory per byte of text: docs/performance.md."""

MEMORY_AT_LEAST = 64 << 20
"""Bytes of a process with the reading code imported."""

MEMORY_SHARE = 0.5
"""Share of the usable memory that all processes may take together."""


def read_ranks(
    paths: RankPaths, stopped: Callable[[], bool] | None = None, scheduler: str = ""
) -> Iterator[ReadRank]:
    """Each of ``paths`` as soon as it has been read; in any order from processes or a cluster.

    With the address of a Dask ``scheduler``, its workers read them and must see the same files.
    Remote traces are copied by their reader while it reads.

    Raises:
        ClusterError: the cluster cannot be used.
        LoadCancelled: ``stopped`` returned true.
    """
    jobs = [(rank, remote_of(path) or path) for rank, path in paths]
    if scheduler:
        from perftui.facts.ranks.parallel_reading import read_on_cluster

        return read_on_cluster(jobs, scheduler, stopped)
    processes = processes_for([_text_size(path) for _, path in paths])
    if processes < 2:
        return (read_one(place, rank, stopped) for rank, place in jobs)
    from perftui.facts.ranks.parallel_reading import read_in_processes

    return read_in_processes(jobs, processes, stopped)


def processes_for(sizes: list[int], cores: int | None = None, memory: int | None = None) -> int:
    """Number of processes to read traces of so many bytes of text; 1 if this process is as fast.
    Limited so that none runs out of memory while each reads a trace of the largest size."""
    if len(sizes) < 2 or sum(sizes) < WORTH_PROCESSES:
        return 1
    need = MEMORY_AT_LEAST + MEMORY_PER_TEXT * max(sizes)
    room = MEMORY_SHARE * (usable_memory() if memory is None else memory)
    most = usable_cores() if cores is None else cores
    return max(1, min(most, len(sizes), int(room // need)))


def _text_size(path: Path) -> int:
    try:
        size = path.stat().st_size
    except OSError:
        return 0
    return size * GZIP_RATIO if path.suffix == ".gz" else size
