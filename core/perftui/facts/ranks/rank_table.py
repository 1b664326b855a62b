"""The ranks of a training side by side, and which of them the others wait for.

Ranks that reduce gradients together take the same time for a step, whoever is slow: the others wait
for it. Where they wait is known: a trace names exposed communication, and a rank's own clock sees
it within backward, where gradients are reduced. So the slow one is the rank whose steps without
that part are the longest. Durations are compared, never points in time: those of two hosts are on
two clocks.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from perftui.facts.fact import Facts, fact
from perftui.facts.gpu.memory import peak_reserved
from perftui.facts.step.step_breakdown import StepBreakdown
from perftui.facts.step.steps import step_breakdown, step_count

STRAGGLER_WARNING = 0.05
"""By how much of a step one rank must be behind the others to be called slow: as for other waits
from 5 %, and above what equal ranks of one machine differ by."""

WAITS_IN = "backward"
"""The phase of a rank's own steps in which it waits for others."""

WAITS_IN_TRACE = "exposed communication"
"""The part of a step in which a device only waits for others, or moves their data."""


@dataclass(frozen=True)
class RankRow:
    """The mean steady step of one rank; times in ns."""

    rank: int
    host: str
    """Where it ran; empty where that is not known."""
    train_steps: int
    """Steps so far, warm-up and profiled ones included."""
    steps: int
    """Steady steps, over which the means are; 0 where there are none yet."""
    mean: int = 0
    p50: int = 0
    p95: int = 0
    parts: tuple[tuple[str, int], ...] = ()
    """Means that sum to ``mean``."""
    waits: int = 0
    """ns of ``mean`` in which the rank may wait for other ranks."""
    peak_memory: int | None = None
    """Most GPU memory that PyTorch held at the end of a step, bytes."""
    caused: int | None = None
    """ns that it makes all other ranks wait in collectives, in a mean step and in sum; None where
    their traces do not tell."""

    @property
    def own(self) -> int:
        """What a step takes without waiting for others."""
        return self.mean - self.waits

    def part(self, name: str) -> int:
        """Mean time in the part ``name``, 0 where it has no such part."""
        return dict(self.parts).get(name, 0)


@dataclass(frozen=True)
class Straggler:
    """The rank that is slowest."""

    rank: int
    lag: int
    """ns by which the slowest rank's steps, without waiting, exceed the median other rank's."""
    part: str
    """The part of a step in which most of that arises."""
    part_lag: int
    holds_up: bool
    """Whether the others wait for it in every step; else it is only slower."""


@dataclass(frozen=True)
class RankTable:
    """All ranks, by number."""

    rows: tuple[RankRow, ...] = ()
    straggler: Straggler | None = None
    spread: float | None = None
    """The longest own time over the median of the others, minus 1; None with fewer than two."""
    notes: tuple[str, ...] = ()
    """What cannot be compared, in words."""


@fact
def rank_table(facts: Facts) -> RankTable:
    """The ranks of a run side by side, empty without a run: of trainings one after the other,
    those of the newest."""
    run = facts.run
    if run is None:
        return RankTable()
    places = sorted({one.place for one in run.ranks})
    rows = tuple(_row_of_run(facts.of_rank(place), run.manifest.host) for place in places)
    hosts = {row.host for row in rows}
    notes = []
    if len(hosts) > 1:
        notes.append(f"on {len(hosts)} hosts with a clock each: durations are compared, not times")
    missing = [row.rank for row in rows if not row.steps]
    if missing and len(rows) > 1:
        notes.append(f"without steady steps, so not compared: rank {some_ranks(missing)}")
    return compared(rows, tuple(notes))


def compared(rows: Sequence[RankRow], notes: tuple[str, ...] = ()) -> RankTable:
    """``rows`` with the slowest of them named, where one is."""
    known = [row for row in rows if row.steps and row.mean]
    if len(known) < 2:
        return RankTable(tuple(rows), notes=notes)
    slowest = max(known, key=lambda row: (row.own, -row.rank))
    others = [row for row in known if row is not slowest]
    usual = statistics.median_low([row.own for row in others])
    spread = slowest.own / usual - 1 if usual else None
    return RankTable(tuple(rows), _straggler(slowest, others, usual), spread, notes)


def _straggler(slowest: RankRow, others: Sequence[RankRow], usual: int) -> Straggler | None:
    """The slowest, where it is behind by more than noise."""
    lag = slowest.own - usual
    if lag < STRAGGLER_WARNING * slowest.mean:
        return None
    lags = {
        name: ns - statistics.median_low([other.part(name) for other in others])
        for name, ns in slowest.parts
    }
    waited = statistics.median_low([other.waits for other in others]) - slowest.waits
    own = [name for name in lags if name not in (WAITS_IN, WAITS_IN_TRACE)]
    part = max(own, key=lambda name: lags[name], default="")
    return Straggler(slowest.rank, lag, part, lags.get(part, 0), 2 * waited >= lag)


def rank_row(
    rank: int,
    host: str,
    recorded: int,
    found: StepBreakdown | None,
    waits_in: str,
    peak: int | None = None,
) -> RankRow:
    """One rank by its mean step; ``waits_in`` is the part in which it waits for other ranks."""
    if found is None:
        return RankRow(rank, host, recorded, 0, peak_memory=peak)
    steps = (found.count, found.mean, found.p50, found.p95, found.parts)
    return RankRow(rank, host, recorded, *steps, found.part(waits_in), peak)


def _row_of_run(facts: Facts, host: str) -> RankRow:
    rank = facts.rank
    place, where = (rank.place, rank.host or host) if rank else (0, host)
    found, peak = step_breakdown(facts), peak_reserved(facts)
    return rank_row(place, where, step_count(facts), found, WAITS_IN, peak)


def some_ranks(ranks: Sequence[int]) -> str:
    """The first few of them, as words of a sentence."""
    return ", ".join(map(str, ranks[:8])) + (" ..." if len(ranks) > 8 else "")
