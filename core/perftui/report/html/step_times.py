"""How long each step took, over a run or a trace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from perftui.facts.fact import Facts
from perftui.facts.step.steady import median
from perftui.facts.step.steps import steady_mask, step_kind
from perftui.facts.step.trace_steps import trace_steps
from perftui.facts.step.uneven_steps import slow_from
from perftui.trace.model import Int64

FEWEST = 3
"""Steps that are worth a chart."""

ABOVE = 1.25
"""Times the limit of slow steps, or the 95th percentile, up to which a chart is drawn to scale: one
step of a thousand times the usual length would flatten all others. Of even steps, times the longest
of them."""


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Steps in order, those of one kind; columns of equal length, at least one step is steady."""

    index: Int64
    duration: Int64
    """ns."""
    steady: npt.NDArray[np.bool_]
    """Neither of the warm-up nor disturbed by profiling."""

    @property
    def usual(self) -> float:
        """Median of the steady steps, ns."""
        return median(self.duration[self.steady])

    @cached_property
    def limit(self) -> float:
        """From how many ns on a steady step is slow."""
        return slow_from(self.duration[self.steady])

    @property
    def slow(self) -> npt.NDArray[np.bool_]:
        """Which steady steps are slow."""
        found: npt.NDArray[np.bool_] = self.steady & (self.duration > self.limit)
        return found

    @property
    def top(self) -> int:
        """Up to how many ns the steps are drawn to scale; longer ones lie above the chart."""
        ordered = np.sort(self.duration[self.steady])
        high = float(ordered[(len(ordered) - 1) * 95 // 100])
        return int(ABOVE * min(float(self.duration.max()), max(self.limit, high))) + 1


def step_times(facts: Facts) -> StepTimes | None:
    """The steps of a run that are still kept one by one, or of a trace; None where they are few."""
    found = _of_run(facts) if len(facts.steps) else _of_trace(facts)
    if found is None or len(found.index) < FEWEST or not found.steady.any():
        return None
    return found


def _of_run(facts: Facts) -> StepTimes:
    of_kind = facts.steps["kind"] == step_kind(facts)
    rows = facts.steps.where(of_kind)
    return StepTimes(rows["index"], rows["duration"], steady_mask(facts)[of_kind])


def _of_trace(facts: Facts) -> StepTimes | None:
    found = trace_steps.or_none(facts)
    if found is None or not found.steps:
        return None
    judged = {one.step.row for one in found.each}
    steps = [one.step for one in found.analysis.step_parts]
    return StepTimes(
        np.array([step.index for step in steps], dtype=np.int64),
        np.array([step.duration for step in steps], dtype=np.int64),
        np.array([step.row in judged for step in steps], dtype=np.bool_),
    )
