"""The collectives of each rank, matched across ranks, on one clock.

Ranks of a group call its collectives in the same order, so the first of a step on one rank is the
first on all. Their clocks may differ: all ranks leave an all-reduce together, so the median
difference of ends is taken as the clocks' difference.

No rank leaves an all-reduce, an all-gather or a reduce-scatter before the last one has entered it.
So in true time the kernels of one collective overlap on all ranks: for kernels ``[a, b)`` and ``[c,
d)`` of two ranks, the shift of the second clock lies in ``(a - d, b - c)``. Each collective shared
by two traces narrows these bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import Intervals
from perftui.analysis.merged_ranks import Evidence, RankClock
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.calls import launch_of
from perftui.facts.fact import Facts, UnknownError, trace_fact
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import ANNOTATION, KERNEL, MEMSET, NONE, Int64, Mask, Trace, TraceError

_TOGETHER = re.compile(r"all_?reduce|all_?gather|reduce_?scatter", re.IGNORECASE)
"""Collectives that no rank leaves before all are in, unlike a broadcast or a send."""

_EXCHANGE = re.compile(r"all_?to_?all|send_?recv", re.IGNORECASE)
"""Every rank sends to every other; NCCL names such a kernel after its parts."""

_OTHER = re.compile(r"broadcast|barrier|gather|scatter|reduce|dispatch|combine", re.IGNORECASE)

_BETWEEN_TWO = frozenset({"send", "recv", "isend", "irecv"})
"""``Collective name`` of operations between only two ranks of a group."""

MOST_READ = 2_000
"""Collectives whose groups are read from the file; others get that of the first on their stream."""


@dataclass(frozen=True, eq=False)
class RankCollectives:
    """Collectives by start, every column as long as ``start``; times in ns on the trace's clock."""

    start: Int64
    end: Int64
    step: Int64
    """Index of the step that launched each; NONE if the trace marks no steps."""
    group: tuple[str, ...]
    """Name of the group of ranks: the same text on each of them."""
    kind: tuple[str, ...]
    """Operation, such as ``allreduce``: the same word on each rank."""
    computing: Intervals
    """When the rank computes: waiting meanwhile costs nothing."""
    steady: frozenset[int]
    """Indices of judged steps; only NONE if the trace marks none."""

    def __len__(self) -> int:
        return len(self.start)


@trace_fact
def rank_collectives(analysis: TraceAnalysis) -> RankCollectives:
    """Collectives of the busiest device; without any, those of libraries such as Gloo on the CPU.
    Unknown if the trace has no collectives."""
    steps, trace = trace_steps(analysis), analysis.trace
    rows, computes = _rows(trace, steps) if steps else (np.zeros(0, np.int64), np.zeros(0, bool))
    if steps is None or not len(rows):
        raise UnknownError("no collective is in the trace")
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    number = _steps_of(analysis, rows)
    arguments = _arguments(trace, rows)
    groups = _groups(trace, rows, arguments)
    between = [str(arguments.get(row, {}).get("Collective name")) for row in rows.tolist()]
    chosen_mask = np.array([name not in _BETWEEN_TWO for name in between], dtype=bool)
    chosen_mask &= (number != NONE) | (not analysis.steps)
    chosen, at = rows[chosen_mask], np.flatnonzero(chosen_mask).tolist()
    return RankCollectives(
        trace.start[chosen],
        trace.ends_of(chosen),
        number[chosen_mask],
        tuple(groups[place] for place in at),
        tuple(kind_of(trace.name_of(row)) for row in chosen.tolist()),
        kinds.busy(trace, computes),
        frozenset(part.step.index for part in steps.each) if analysis.steps else frozenset({NONE}),
    )


def kind_of(name: str) -> str:
    """The operation of a kernel or call, as far as its name is the same on all ranks: without the
    algorithm, which ranks choose independently."""
    for pattern in (_TOGETHER, _EXCHANGE, _OTHER):
        match = pattern.search(name)
        if match:
            return match.group().lower().replace("_", "")
    return ""


def _rows(trace: Trace, steps: TraceSteps) -> tuple[Int64, Mask]:
    """Rows of collectives, and a mask of computation on the same device or the CPU."""
    if steps.has_gpu:
        communicates = kinds.communication(trace)
        works = trace.in_category(KERNEL, MEMSET) & steps.on_device & ~communicates
        rows = np.flatnonzero(communicates & steps.on_device)
        if len(rows):
            return rows, works
    else:
        works = kinds.operators(trace) & ~kinds.collective_calls(trace)
    on_host = kinds.host_collectives(trace)
    marked = on_host & trace.in_category(ANNOTATION)
    return np.flatnonzero(marked if marked.any() else on_host), works


def _steps_of(analysis: TraceAnalysis, rows: Int64) -> Int64:
    """The step that launched each of ``rows``; NONE outside all steps."""
    trace, steps = analysis.trace, analysis.steps
    if not steps:
        return np.full(len(rows), NONE, dtype=np.int64)
    launch = launch_of(trace, rows)
    time = trace.start[np.where(launch == NONE, rows, launch)]
    start, end, number = (
        np.array([getattr(step, name) for step in steps], dtype=np.int64)
        for name in ("start", "end", "index")
    )
    at = np.searchsorted(start, time, side="right") - 1
    return np.where((at >= 0) & (time < end[at]), number[at], NONE)


def _arguments(trace: Trace, rows: Int64) -> Mapping[int, Mapping[str, Any]]:
    """Arguments of the first of ``rows``; empty if the file does not name groups."""
    try:
        first = trace.read_arguments(int(rows[0]))
        if "Process Group Name" not in first and "Collective name" not in first:
            return {}
        return dict(arguments_of(trace, rows[:MOST_READ]))
    except (TraceError, OSError):
        return {}


def _groups(trace: Trace, rows: Int64, by_row: Mapping[int, Mapping[str, Any]]) -> tuple[str, ...]:
    """The process group of each row, else its stream: each group of ranks has its own."""
    numbers = {track: number for number, track in enumerate(np.unique(trace.track[rows]).tolist())}
    on_stream: dict[tuple[int, int], str] = {}
    groups = []
    for row in rows.tolist():
        place, group = (int(trace.track[row]), int(trace.name[row])), ""
        arguments = by_row.get(row, {})
        if (name := arguments.get("Process Group Name")) is not None:
            group = f"{name} {arguments.get('Process Group Ranks', '')}"
            on_stream.setdefault(place, group)
        groups.append(group or on_stream.get(place) or f"stream {numbers[place[0]]}")
    return tuple(groups)


NOISE = 100_000
"""ns by which clocks may stay apart: ranks leave a collective about so closely together, and clocks
drift."""

_MOST_APART = 0.5
"""Share of unmatched collectives from which the match is rejected."""


@dataclass(frozen=True, eq=False)
class Meetings:
    """Matched collectives, a row each, in the order in which the last rank comes, and a column for
    each of ``ranks``; times in ns on one clock, ``there`` is whether the rank takes part."""

    ranks: tuple[int, ...]
    there: Mask
    start: Int64
    end: Int64
    group: Int64
    """Index of the process group of each row."""
    together: Mask
    """Which rows no rank leaves before all have come."""
    clock: Int64
    """ns added to the times of each rank."""
    steps: int
    """Steps that launched them; 1 if the traces mark none."""
    apart: tuple[int, ...]
    """Ranks whose collectives match no other rank's."""


@dataclass(frozen=True)
class _Match:
    """One collective, with its row on each rank that takes part."""

    group: str
    kind: str
    rows: Mapping[int, int]


def match_collectives(of_ranks: Mapping[int, RankCollectives]) -> Meetings:
    """The collectives shared by several ranks, in steps judged on all of them. Unknown if there are
    none, or they do not match."""
    steps = frozenset.intersection(*(collectives.steady for collectives in of_ranks.values()))
    if not steps:
        raise UnknownError("the traces of the ranks have no steady step in common")
    matched = _matched(of_ranks, steps)
    if not matched:
        raise UnknownError("no two ranks call the same collectives in the same order")
    shape = (len(matched), len(of_ranks))
    there = np.zeros(shape, dtype=bool)
    start, end = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for column, rank in enumerate(sorted(of_ranks)):
        for at, row in ((at, match.rows.get(rank)) for at, match in enumerate(matched)):
            if row is not None:
                own, there[at, column] = of_ranks[rank], True
                start[at, column], end[at, column] = own.start[row], own.end[row]
    # No rank leaves these before all have come; not so a broadcast.
    kinds = [match.kind for match in matched]
    together = np.array([bool(_TOGETHER.fullmatch(k) or _EXCHANGE.fullmatch(k)) for k in kinds])
    clock = _clocks(end, there, together)
    start, end = start + clock, end + clock
    limits = np.iinfo(np.int64)
    last = np.where(there, start, limits.min).max(axis=1)
    first_out = np.where(there, end, limits.max).min(axis=1)
    # Rows can be one collective if at some time all ranks are in it.
    meets = ~together | (last <= first_out + NOISE)
    if np.count_nonzero(~meets) > _MOST_APART * len(meets):
        raise UnknownError("what looks like one collective of the ranks is not at the same time")
    rows = np.flatnonzero(meets)
    rows = rows[np.argsort(last[rows], kind="stable")]
    numbers = {name: number for number, name in enumerate({match.group: 0 for match in matched})}
    group = np.array([numbers[match.group] for match in matched], dtype=np.int64)
    ranks = tuple(sorted(of_ranks))
    apart = tuple(rank for column, rank in enumerate(ranks) if not there[:, column].any())
    there, together, group = there[rows], together[rows], group[rows]
    start, end = start[rows], end[rows]
    return Meetings(ranks, there, start, end, group, together, clock, len(steps), apart)


def _matched(of_ranks: Mapping[int, RankCollectives], steps: frozenset[int]) -> list[_Match]:
    """Collectives of a group in a step, as called in the same order by most ranks."""
    sequences: dict[tuple[str, int], dict[tuple[str, ...], dict[int, list[int]]]] = {}
    for rank, collectives in of_ranks.items():
        by_place: dict[tuple[str, int], list[int]] = {}
        for row, step in enumerate(collectives.step.tolist()):
            if step in steps:
                by_place.setdefault((collectives.group[row], step), []).append(row)
        for place, rows in by_place.items():
            kinds = tuple(collectives.kind[row] for row in rows)
            sequences.setdefault(place, {}).setdefault(kinds, {})[rank] = rows
    result = []
    for (group, _), alike in sequences.items():
        kinds, rows_of = max(alike.items(), key=lambda item: (len(item[1]), item[0]))
        for at, kind in enumerate(kinds if len(rows_of) > 1 else ()):
            result.append(_Match(group, kind, {rank: rows[at] for rank, rows in rows_of.items()}))
    return result


def _clocks(end: Int64, there: Mask, together: Mask) -> Int64:
    """ns to add to each rank's times: from rank to rank, over pairs that share most collectives."""
    usable = there & together[:, np.newaxis]
    if not usable.any():
        usable = there
    shared = usable.T.astype(np.int64) @ usable.astype(np.int64)
    clock = np.zeros(end.shape[1], dtype=np.int64)
    left = set(range(len(clock)))
    while left:
        # A rank without collectives shared with earlier ones keeps its clock, which is not used.
        left.remove(first := min(left))
        reached = [first]
        while pairs := [(shared[a, b], -b, -a) for a in reached for b in left if shared[a, b]]:
            _, b, a = (abs(int(part)) for part in max(pairs))
            both = usable[:, a] & usable[:, b]
            clock[b] = clock[a] + int(np.median(end[both, a] - end[both, b]))
            left.remove(b)
            reached.append(b)
    return clock


def compare_clocks(reference: TraceAnalysis, other: TraceAnalysis) -> RankClock:
    """The clock of ``other`` against that of ``reference``, by the collectives of two ranks."""
    origins = reference.trace.wall_origin, other.trace.wall_origin
    if origins[0] is None or origins[1] is None:
        return RankClock(0, Evidence.NO_CLOCK)
    ours, theirs = (rank_collectives.or_none(Facts(None, one)) for one in (reference, other))
    if ours is None or theirs is None:
        return RankClock(0, Evidence.UNCHECKED)
    matched = _matched({0: ours, 1: theirs}, frozenset(ours.step.tolist()))
    together = [match.rows for match in matched if _TOGETHER.fullmatch(match.kind)]
    if not together:
        return RankClock(0, Evidence.UNCHECKED)
    first, second = ([rows[rank] for rows in together] for rank in (0, 1))
    apart = origins[0] - origins[1]
    low = int((ours.start[first] - theirs.end[second]).max()) + apart
    high = int((ours.end[first] - theirs.start[second]).min()) + apart
    if low > high:
        return RankClock(0, Evidence.CONTRADICTED, None, len(first))
    if low <= 0 <= high:
        return RankClock(0, Evidence.CONFIRMED, (low, high), len(first))
    return RankClock((low + high) // 2, Evidence.SHIFTED, (low, high), len(first))
