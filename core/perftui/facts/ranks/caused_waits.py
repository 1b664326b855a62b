"""How long ranks wait in collectives, and for which rank.

Whoever has come to a collective waits for the one that comes last. Where that one itself waited
meanwhile, in a collective of another group, so much of the wait is due to the rank it waited for:
never to one that waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perftui.facts.ranks.meetings import Mask, Meetings, meetings
from perftui.facts.ranks.rank_collectives import RankCollectives
from perftui.trace.model import Int64


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
    """Who waits for whom, by the collectives of each rank.

    Raises:
        UnknownError: they do not match.
    """
    found = meetings(of_ranks)
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
            passed = _passed(since[late] - since[column], wait)
            waits[column] += passed
            waits[column, late] += wait - int(passed.sum())
        when_together[group] = waits.copy()
    return waits


def _passed(longer: Int64, wait: int) -> Int64:
    """The part of ``wait`` that the late rank passes on, by rank it is due to; ``longer`` is what
    it waited itself for each of them, less what the waiting rank did."""
    due = np.maximum(longer, 0)
    share: Int64 = due * min(wait, max(int(longer.sum()), 0)) // max(int(due.sum()), 1)
    return share
