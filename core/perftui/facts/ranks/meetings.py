"""Collectives of several ranks, each put beside the same one on the others, on one clock.

Ranks of a group call its collectives in the same order, so that the first of a step on one rank is
the first on all. Their clocks may be apart: all leave an all-reduce together, so they are taken to
be apart by what the ends differ in the median.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.facts.fact import UnknownError
from perftui.facts.ranks.rank_collectives import RankCollectives, meets_all
from perftui.trace.model import Int64

Mask = npt.NDArray[np.bool_]

NOISE = 100_000
"""ns by which clocks may stay apart: ranks leave a collective so closely after one another, and
drift."""

_MOST_APART = 0.5
"""Share of the collectives that may not meet, from which on the match is not believed."""


@dataclass(frozen=True, eq=False)
class Meetings:
    """A row for each collective, in the order in which the last rank comes, and a column for each
    of ``ranks``; times in ns on one clock, ``there`` is whether the rank takes part."""

    ranks: tuple[int, ...]
    there: Mask
    start: Int64
    end: Int64
    group: Int64
    """Number of the process group of each row."""
    together: Mask
    """Which rows no rank leaves before all have come."""
    clock: Int64
    """What was added to the times of each rank."""
    steps: int
    """Steps that they were launched in; 1 where the traces mark none."""
    apart: tuple[int, ...]
    """Ranks whose collectives match those of no other."""


@dataclass(frozen=True)
class _Matched:
    """One collective, with its row on each rank that takes part."""

    group: str
    kind: str
    rows: Mapping[int, int]


def meetings(of_ranks: Mapping[int, RankCollectives]) -> Meetings:
    """The collectives that several of the ranks share, in the steps that are judged on all.

    Raises:
        UnknownError: there are none, or they do not match.
    """
    steps = frozenset.intersection(*(each.steady for each in of_ranks.values()))
    if not steps:
        raise UnknownError("the traces of the ranks have no steady step in common")
    matched = _matched(of_ranks, steps)
    if not matched:
        raise UnknownError("no two ranks call the same collectives in the same order")
    there, start, end = _laid_out(of_ranks, matched)
    together = np.array([meets_all(one.kind) for one in matched], dtype=bool)
    clock = _clocks(end, there, together)
    start, end = start + clock, end + clock
    rows = _that_meet(there, start, end, together)
    numbers = {name: number for number, name in enumerate({one.group: 0 for one in matched})}
    group = np.array([numbers[one.group] for one in matched], dtype=np.int64)
    ranks = tuple(sorted(of_ranks))
    apart = tuple(rank for column, rank in enumerate(ranks) if not there[:, column].any())
    return Meetings(
        ranks,
        there[rows],
        start[rows],
        end[rows],
        group[rows],
        together[rows],
        clock,
        len(steps),
        apart,
    )


def _matched(of_ranks: Mapping[int, RankCollectives], steps: frozenset[int]) -> list[_Matched]:
    """Those of one group in one step, where most ranks do the same in the same order."""
    sequences: dict[tuple[str, int], dict[tuple[str, ...], dict[int, list[int]]]] = {}
    for rank, each in of_ranks.items():
        for place, rows in _by_group_and_step(each, steps).items():
            kinds = tuple(each.kind[row] for row in rows)
            sequences.setdefault(place, {}).setdefault(kinds, {})[rank] = rows
    found = []
    for (group, _), alike in sequences.items():
        kinds, rows_of = max(alike.items(), key=lambda one: (len(one[1]), one[0]))
        for at, kind in enumerate(kinds if len(rows_of) > 1 else ()):
            found.append(_Matched(group, kind, {rank: its[at] for rank, its in rows_of.items()}))
    return found


def _laid_out(
    of_ranks: Mapping[int, RankCollectives], matched: Sequence[_Matched]
) -> tuple[Mask, Int64, Int64]:
    """Which ranks take part in each collective, and its start and end on the clock of each."""
    shape = (len(matched), len(of_ranks))
    there = np.zeros(shape, dtype=bool)
    start, end = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for column, rank in enumerate(sorted(of_ranks)):
        each = of_ranks[rank]
        own = [(at, one.rows[rank]) for at, one in enumerate(matched) if rank in one.rows]
        for at, row in own:
            there[at, column] = True
            start[at, column], end[at, column] = each.start[row], each.end[row]
    return there, start, end


def _by_group_and_step(
    each: RankCollectives, steps: frozenset[int]
) -> Mapping[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = {}
    for row, step in enumerate(each.step.tolist()):
        if step in steps:
            found.setdefault((each.group[row], step), []).append(row)
    return found


def _clocks(end: Int64, there: Mask, together: Mask) -> Int64:
    """What to add to each rank's times: from rank to rank, over those that share most."""
    usable = there & together[:, np.newaxis]
    if not usable.any():
        usable = there
    shared = usable.T.astype(np.int64) @ usable.astype(np.int64)
    clock = np.zeros(end.shape[1], dtype=np.int64)
    left = set(range(len(clock)))
    while left:
        # A rank that shares none with those before has a clock of its own, which nobody asks for.
        left.remove(first := min(left))
        reached = [first]
        while pairs := [(shared[a, b], -b, -a) for a in reached for b in left if shared[a, b]]:
            _, b, a = (abs(int(each)) for each in max(pairs))
            both = usable[:, a] & usable[:, b]
            clock[b] = clock[a] + int(np.median(end[both, a] - end[both, b]))
            left.remove(b)
            reached.append(b)
    return clock


def _that_meet(there: Mask, start: Int64, end: Int64, together: Mask) -> Int64:
    """Rows of those that can be one collective, since some time all are in it: in order of the
    last rank to come.

    Raises:
        UnknownError: they are few.
    """
    limits = np.iinfo(np.int64)
    last = np.where(there, start, limits.min).max(axis=1)
    first_out = np.where(there, end, limits.max).min(axis=1)
    meets = ~together | (last <= first_out + NOISE)
    if np.count_nonzero(~meets) > _MOST_APART * len(meets):
        raise UnknownError("what looks like one collective of the ranks is not at the same time")
    rows = np.flatnonzero(meets)
    return rows[np.argsort(last[rows], kind="stable")]
