"""Where the mean step's wall time goes, in whole nanoseconds that sum to it exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.run.columns import PHASES
from perftui.run.rounding import whole_quotients
from perftui.run.steady import Mask
from perftui.run.table import Table


@dataclass(frozen=True)
class StepShare:
    """The mean of ``count`` steps, split by phase; all times in ns.

    ``parts`` holds every phase of ``PHASES`` in order and sums to ``mean`` exactly. The quantiles
    are durations of real steps (nearest rank).
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


def step_budget(steps: Table, mask: Mask) -> StepShare | None:
    """The budget over the rows of ``steps`` that ``mask`` selects; None where none is usable."""
    chosen = steps.where(mask)
    if not len(chosen):
        return None
    phases = np.stack([chosen[phase] for phase in PHASES])
    whole = (phases.sum(axis=0) == chosen["duration"]) & (phases >= 0).all(axis=0)
    count = int(whole.sum())
    if not count:
        return None
    mean, parts = exact_means([int(row[whole].sum()) for row in phases], count)
    ordered = np.sort(chosen["duration"][whole])
    p5, p50, p95 = (nearest_rank(ordered, percent) for percent in (5, 50, 95))
    named = tuple(zip(PHASES, parts, strict=True))
    return StepShare(count, mean, named, p5, p50, p95, _usual(ordered), len(chosen) - count)


def _usual(ordered: npt.NDArray[np.int64]) -> int:
    tenth = len(ordered) // 10
    middle = ordered[tenth : len(ordered) - tenth]
    return int(middle.sum()) // len(middle)


def exact_means(totals: Sequence[int], count: int) -> tuple[int, list[int]]:
    """The mean of the sum of ``totals`` over ``count`` (rounded down), and whole parts of it.

    Parts are the means of each total, off by less than one; together they are the mean.
    """
    return sum(totals) // count, whole_quotients(totals, count)


def nearest_rank(ordered: npt.NDArray[np.int64], percent: int) -> int:
    """The smallest value that at least ``percent`` of the ascending ``ordered`` do not exceed."""
    rank = -(-percent * len(ordered) // 100)
    return int(ordered[max(rank, 1) - 1])
