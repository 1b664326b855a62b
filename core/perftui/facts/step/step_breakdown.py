"""Where the mean step's wall time goes, in whole nanoseconds that sum to it exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perftui import format as fmt
from perftui.facts.rounding import whole_quotients
from perftui.facts.step.steady import Mask
from perftui.run.aggregates import NO_AGGREGATES, Aggregates, Weighed, consistent_rows
from perftui.run.columns import PHASES
from perftui.run.table import Table

if TYPE_CHECKING:
    from perftui.analysis.model import StepParts


@dataclass(frozen=True)
class StepBreakdown:
    """The mean of ``count`` steps, split into exclusive parts; all times in ns.

    ``parts`` are in drawing order and sum to ``mean`` exactly: the phases of ``PHASES`` for a run,
    the parts of ``StepParts`` for a trace. The quantiles are durations of real steps (nearest
    rank); for a run so long that its journal is downsampled they are within 0.4 %.
    """

    count: int
    """0 for a trace without known steps: the breakdown is then that of the whole trace."""
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
    of_run: bool = True
    """Measured in the training thread of a run, else read from a trace."""

    def part(self, name: str) -> int:
        """Mean time in the part ``name``, 0 where there is no such part."""
        return dict(self.parts).get(name, 0)

    def part_of(self, ns: int) -> str:
        """``21 ms of each 35 ms step (60 %)``, or of what a trace without steps has recorded."""
        describe = fmt.part_of_step if self.of_run or self.count else fmt.part_of_trace
        return describe(ns, self.mean)

    @property
    def steps_per_second(self) -> float:
        """Throughput."""
        return 1e9 / self.mean if self.mean else 0.0


def run_breakdown(
    steps: Table, mask: Mask, downsampled: Aggregates = NO_AGGREGATES, kind: str = "train"
) -> StepBreakdown | None:
    """The breakdown over the rows of ``steps`` that ``mask`` selects; None where none is usable.

    The undisturbed steps of ``kind`` in ``downsampled``, no longer kept as rows, are part of
    it: the mean and its parts stay exact, quantiles take a step for the mean of those within 0.4 %.
    """
    chosen = steps.where(mask)
    kept = downsampled.steady(kind, consistent=True)
    whole = consistent_rows(chosen) if len(chosen) else np.zeros(0, dtype=np.bool_)
    usable = chosen.where(whole)
    count = len(usable) + kept.rows
    if not count:
        return None
    totals = [int(usable[phase].sum()) if len(usable) else 0 for phase in PHASES]
    totals = [
        total + int(kept.of(phase).total) for total, phase in zip(totals, PHASES, strict=True)
    ]
    durations = usable["duration"] if len(usable) else np.zeros(0, dtype=np.int64)
    left_out = len(chosen) - len(usable) + downsampled.steady(kind, consistent=False).rows
    spread = Weighed(durations, kept.histogram("duration"))
    return _breakdown(count, PHASES, totals, spread, inconsistent=left_out)


def trace_breakdown(steps: Sequence[StepParts], *, marked: bool) -> StepBreakdown | None:
    """The breakdown over ``steps`` of a trace; None where they take no time.

    If its steps are not known (``marked`` is false), they are one entry, the whole trace.
    """
    sums: dict[str, int] = {}
    for name, time in (part for each in steps for part in each.parts):
        sums[name] = sums.get(name, 0) + time
    names, totals = list(sums), list(sums.values())
    if not sum(totals) // max(len(steps), 1):
        return None
    spread = Weighed(np.array([each.step.duration for each in steps], dtype=np.int64))
    found = _breakdown(len(steps), names, totals, spread, of_run=False)
    return found if marked else replace(found, count=0)


def _breakdown(
    count: int,
    names: Sequence[str],
    totals: Sequence[int],
    spread: Weighed,
    *,
    inconsistent: int = 0,
    of_run: bool = True,
) -> StepBreakdown:
    mean, parts = exact_means(totals, count)
    p5, p50, p95 = (spread.nearest_rank(percent) for percent in (5, 50, 95))
    return StepBreakdown(
        count,
        mean,
        tuple(zip(names, parts, strict=True)),
        p5,
        p50,
        p95,
        usual=spread.trimmed_mean(10),
        inconsistent=inconsistent,
        of_run=of_run,
    )


def exact_means(totals: Sequence[int], count: int) -> tuple[int, list[int]]:
    """The mean of the sum of ``totals`` over ``count`` (rounded down), and whole parts of it.

    Parts are the means of each total, off by less than one; together they are the mean.
    """
    return sum(totals) // count, whole_quotients(totals, count)
