"""The ranks of a training side by side, and which of them the others wait for.

Ranks that reduce gradients together take the same time for a step, whoever is slow: the others wait
for it. The wait is visible: a trace names exposed communication, and a rank's own clock sees it
within backward, where gradients are reduced. So the slow rank is the one with the longest steps
without that part. Only durations are compared, not points in time: two hosts have two clocks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from perftui.facts.fact import Facts, fact
from perftui.facts.gpu.cards import peak_reserved
from perftui.facts.step.steps import TRAIN, StepBreakdown, step_breakdown, step_count
from perftui.run.table import Table

STRAGGLER_WARNING = 0.05
"""Share of a step by which a rank must be behind to be called slow: 5 % as for other waits, and
more than equal ranks of one machine differ by."""

WAITS_IN = "backward"
"""The phase of a rank's own steps in which it waits for others."""

WAITS_IN_TRACE = "exposed communication"
"""The part of a step in which a device only waits for others, or moves their data."""


@dataclass(frozen=True)
class RankRow:
    """The mean steady step of one rank; times in ns."""

    rank: int
    host: str
    """Host of the rank; empty if unknown."""
    train_steps: int
    """Steps so far, including warm-up and profiled ones."""
    steps: int
    """Number of steady steps behind the means; 0 if there are none yet."""
    mean: int = 0
    p50: int = 0
    p95: int = 0
    parts: tuple[tuple[str, int], ...] = ()
    """Means that sum to ``mean``."""
    waits: int = 0
    """ns of ``mean`` in which the rank may wait for other ranks."""
    peak_memory: int | None = None
    """Peak GPU memory held by PyTorch at the end of a step, bytes."""
    caused: int | None = None
    """Total ns that it makes other ranks wait in collectives, per mean step; None if their traces
    do not show it."""

    @property
    def own(self) -> int:
        """Time of a step without waiting for others, ns."""
        return self.mean - self.waits

    def part(self, name: str) -> int:
        """Mean time in the part ``name``, ns; 0 if absent."""
        return dict(self.parts).get(name, 0)


@dataclass(frozen=True)
class SlowRank:
    """The rank that arrives last at the collectives."""

    rank: int
    lag: int
    """Excess of its step without waiting over the median other rank's, ns; for traces, how long the
    shown rank waits for it."""
    part: str
    """The part of its step with the largest excess; empty if unknown."""
    part_lag: int
    collectives: Mapping[int, int] = field(default_factory=dict)
    """Mean ns per step in collectives, by rank; empty without windows."""


@dataclass(frozen=True)
class RankTable:
    """All ranks, by number."""

    rows: tuple[RankRow, ...] = ()
    straggler: SlowRank | None = None
    """The slowest rank, if one stands out."""
    spread: float | None = None
    """Longest own time over the median of the others, minus 1; None with fewer than two."""
    notes: tuple[str, ...] = ()
    """What cannot be compared, in words."""
    holds_up: bool = False
    """Whether the others wait for ``straggler`` in every step; else it is only slower."""


@fact
def rank_table(facts: Facts) -> RankTable:
    """The ranks of a run side by side; empty without a run. Of consecutive trainings, the
    newest."""
    run = facts.run
    if run is None:
        return RankTable()
    places = sorted({rank.place for rank in run.ranks})
    rows = []
    for of_rank in map(facts.of_rank, places):
        place, host = (of_rank.rank.place, of_rank.rank.host) if of_rank.rank else (0, "")
        steps, peak = step_breakdown(of_rank), peak_reserved(of_rank)
        host = host or run.manifest.host
        rows.append(rank_row(place, host, step_count(of_rank), steps, WAITS_IN, peak))
    hosts = {row.host for row in rows}
    notes = []
    if len(hosts) > 1:
        notes.append(f"on {len(hosts)} hosts with a clock each: durations are compared, not times")
    missing = [row.rank for row in rows if not row.steps]
    if missing and len(rows) > 1:
        notes.append(f"without steady steps, so not compared: rank {some_ranks(missing)}")
    return compared(rows, tuple(notes))


def compared(rows: Sequence[RankRow], notes: tuple[str, ...] = ()) -> RankTable:
    """``rows`` with the slowest rank, if one stands out."""
    judged = [row for row in rows if row.steps and row.mean]
    if len(judged) < 2:
        return RankTable(tuple(rows), notes=notes)
    slowest = max(judged, key=lambda row: (row.own, -row.rank))
    others = [row for row in judged if row is not slowest]
    usual = statistics.median_low([row.own for row in others])
    spread = slowest.own / usual - 1 if usual else None
    lag, straggler = slowest.own - usual, None
    lags = lags_of(slowest, others)
    waited = statistics.median_low([other.waits for other in others]) - slowest.waits
    own = [name for name in lags if name not in (WAITS_IN, WAITS_IN_TRACE)]
    part = max(own, key=lambda name: lags[name], default="")
    if lag >= STRAGGLER_WARNING * slowest.mean:
        straggler = SlowRank(slowest.rank, lag, part, lags.get(part, 0))
    return RankTable(tuple(rows), straggler, spread, notes, holds_up=2 * waited >= lag)


def lags_of(row: RankRow, others: Sequence[RankRow]) -> dict[str, int]:
    """Excess of each part of a rank's step over the median other rank's, ns."""
    return {
        name: ns - statistics.median_low([other.part(name) for other in others])
        for name, ns in row.parts
    }


def rank_row(
    rank: int,
    host: str,
    recorded: int,
    step: StepBreakdown | None,
    waits_in: str,
    peak: int | None = None,
) -> RankRow:
    """One rank's row from its mean step; ``waits_in`` is the part in which it waits for others."""
    if step is None:
        return RankRow(rank, host, recorded, 0, peak_memory=peak)
    steps = (step.count, step.mean, step.p50, step.p95, step.parts, step.part(waits_in))
    return RankRow(rank, host, recorded, *steps, peak)


def some_ranks(ranks: Sequence[int]) -> str:
    """The first few ranks, as words of a sentence."""
    return ", ".join(map(str, ranks[:8])) + (" ..." if len(ranks) > 8 else "")


Ratios = npt.NDArray[np.float64]

NEWEST = 16384
"""Most steps shown: some 80 per column of a wide terminal."""


@dataclass(frozen=True, eq=False)
class StepGrid:
    """A row for each of ``ranks``, a column for each training step from ``first`` on."""

    ranks: tuple[int, ...]
    first: int
    ratios: Ratios
    """Time of each step without waiting over the median of all; NaN if not recorded."""
    usual: int
    """That median, ns."""

    def binned(self, columns: int) -> Ratios:
        """The newest steps in at most ``columns`` columns, each the longest of as many steps."""
        steps = self.ratios.shape[1]
        size = -(-steps // max(columns, 1))
        missing = -steps % size
        padded = np.pad(self.ratios, ((0, 0), (missing, 0)), constant_values=np.nan)
        bins = padded.reshape(len(self.ranks), -1, size)
        longest: Ratios = np.where(np.isnan(bins), -np.inf, bins).max(axis=2)
        return np.where(np.isneginf(longest), np.nan, longest)


@fact
def step_grid(facts: Facts) -> StepGrid | None:
    """The newest training steps of all ranks; None for one rank, and before any steps. Aligned by
    step number: the clocks of hosts differ."""
    run = facts.run
    places = sorted({rank.place for rank in run.ranks}) if run is not None else []
    tables = {place: facts.of_rank(place).steps for place in places}
    own = {place: pair for place, table in tables.items() if len((pair := _own(table))[0])}
    if len(own) < 2:
        return None
    last = max(int(index[-1]) for index, _ in own.values())
    first = max(min(int(index[0]) for index, _ in own.values()), last - NEWEST + 1)
    ratios = np.full((len(own), last - first + 1), np.nan)
    for line, (index, times) in zip(ratios, own.values(), strict=True):
        recent = index >= first
        line[index[recent] - first] = times[recent]
    usual = float(np.nanmedian(ratios))
    return None if usual <= 0 else StepGrid(tuple(own), first, ratios / usual, round(usual))


def _own(steps: Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Numbers of the training steps, and their times without waiting."""
    if not len(steps):
        return np.zeros(0, np.int64), np.zeros(0)
    rows = steps.where(steps["kind"] == TRAIN)
    return rows["index"], (rows["duration"] - rows[WAITS_IN]).astype(np.float64)
