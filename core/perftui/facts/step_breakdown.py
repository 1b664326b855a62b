"""Where the mean step's wall time goes, in whole nanoseconds that sum to it exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.run.columns import PHASES
from perftui.run.histogram import Weighed
from perftui.run.rounding import whole_quotients
from perftui.run.steady import Mask
from perftui.run.sums import NO_SUMS, Sums, consistent_rows
from perftui.run.table import Table


@dataclass(frozen=True)
class StepShare:
    """The mean of ``count`` steps, split by phase; all times in ns.

    ``parts`` holds every phase of ``PHASES`` in order and sums to ``mean`` exactly. The quantiles
    are durations of real steps (nearest rank), those of a run so long that its steps are thinned
    out within 0.4 %.
    """

    count: int
    mean: int
    parts: tuple[tuple[str, int], ...]
    p5: int
    p50: int
    p95: int
    usual: int
    """Mean of the steps without the fastest and the slowest tenth of them: a few extreme steps do
    not move it, and waits that come every few steps are part of it, which a median leaves out."""
    inconsistent: int = 0
    """Steps left out because their recorded phases do not sum to their duration."""

    def part(self, phase: str) -> int:
        """Mean time in ``phase``."""
        return dict(self.parts)[phase]

    @property
    def steps_per_second(self) -> float:
        """Throughput."""
        return 1e9 / self.mean if self.mean else 0.0


def step_budget(
    steps: Table, mask: Mask, thinned: Sums = NO_SUMS, kind: str = "train"
) -> StepShare | None:
    """The budget over the rows of ``steps`` that ``mask`` selects; None where none is usable.

    The undisturbed steps of ``kind`` in ``thinned``, which are no longer kept as rows, are part of
    it: the mean and its parts stay exact, quantiles take a step for the mean of those within 0.4 %.
    """
    chosen = steps.where(mask)
    kept = thinned.steady(kind, consistent=True)
    whole = consistent_rows(chosen) if len(chosen) else np.zeros(0, dtype=np.bool_)
    usable = chosen.where(whole)
    count = len(usable) + kept.rows
    if not count:
        return None
    totals = [int(usable[phase].sum()) if len(usable) else 0 for phase in PHASES]
    totals = [
        total + int(kept.of(phase).total) for total, phase in zip(totals, PHASES, strict=True)
    ]
    mean, parts = exact_means(totals, count)
    durations = usable["duration"] if len(usable) else np.zeros(0, dtype=np.int64)
    spread = Weighed(durations, kept.histogram("duration"))
    p5, p50, p95 = (spread.nearest_rank(percent) for percent in (5, 50, 95))
    named = tuple(zip(PHASES, parts, strict=True))
    left_out = len(chosen) - len(usable) + thinned.steady(kind, consistent=False).rows
    return StepShare(count, mean, named, p5, p50, p95, spread.trimmed_mean(10), left_out)


def exact_means(totals: Sequence[int], count: int) -> tuple[int, list[int]]:
    """The mean of the sum of ``totals`` over ``count`` (rounded down), and whole parts of it.

    Parts are the means of each total, off by less than one; together they are the mean.
    """
    return sum(totals) // count, whole_quotients(totals, count)


def nearest_rank(ordered: npt.NDArray[np.int64], percent: int) -> int:
    """The smallest value that at least ``percent`` of the ascending ``ordered`` do not exceed."""
    rank = -(-percent * len(ordered) // 100)
    return int(ordered[max(rank, 1) - 1])
