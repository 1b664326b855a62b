"""The traces of all ranks of a directory: the steps of each, and its collectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.facts.ranks.caused_waits import CausedWaits, caused_waits
from perftui.facts.ranks.communication import MOST_RANKS, collective_time
from perftui.facts.ranks.rank_collectives import RankCollectives, rank_collectives
from perftui.facts.ranks.rank_table import WAITS_IN_TRACE, RankRow, rank_row
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.model import KERNEL
from perftui.trace.remote import RemoteFile, at_hand, remote_of


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
    """The ranks beside the trace that is open, and itself; they are read one after the other.

    Raises:
        NotApplicableError: a run, or a trace of a training without other ranks.
        UnknownError: the other ranks have no traces there, or none that can be read.
    """
    opened, beside = facts.analysis, facts.beside
    if facts.run is not None or opened is None or not _has_others(opened, len(beside)):
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
        found = tried(remote_of(path) or path, rank)
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


def tried(
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


def _has_others(analysis: TraceAnalysis, beside: int) -> bool:
    """Whether other ranks train as well: their traces are there, or the file says so."""
    if beside > 1 or _world(analysis) > 1:
        return True
    trace = analysis.trace
    return bool(kinds.communication(trace).any() or kinds.host_collectives(trace).any())


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
    """Who of the ranks of a directory waits for whom.

    Raises:
        NotApplicableError: there are no other ranks.
        UnknownError: their traces are missing, or their collectives do not match.
    """
    return waits_between(traced_ranks(facts).each)


def waits_between(ranks: Sequence[TracedRank]) -> CausedWaits:
    """Who of ``ranks`` waits for whom.

    Raises:
        UnknownError: fewer than two have collectives, or they do not match.
    """
    known = {one.rank: one.collectives for one in ranks if one.collectives is not None}
    if len(known) < 2:
        raise UnknownError("the traces of fewer than two ranks have collectives")
    return caused_waits(known)
