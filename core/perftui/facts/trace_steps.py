"""What a trace says of its steps: the mean budget, and how kernels were launched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.gaps import MOST
from perftui.analysis.intervals import union
from perftui.analysis.model import Gap, GapCause, Step, StepBudget, TraceAnalysis
from perftui.facts.step_breakdown import exact_means
from perftui.run.steady import Mask, warm_up_length
from perftui.trace.model import Int64


@dataclass(frozen=True)
class TraceFacts:
    """The mean of the steady steps of a trace, or the whole trace where it marks none."""

    analysis: TraceAnalysis
    budgets: tuple[StepBudget, ...]
    """The steps that the means are over."""
    steps: int
    """How many there are; 0 where the trace marks no steps."""
    step_ns: int
    """Mean step, or the length of the trace."""
    parts: tuple[tuple[str, int], ...]
    """Means by name; they sum to ``step_ns``."""

    @property
    def has_gpu(self) -> bool:
        """Whether device activity was recorded."""
        return self.analysis.has_gpu

    def part(self, name: str) -> int:
        """Mean time in the part ``name``, 0 where the budget has no such part."""
        return dict(self.parts).get(name, 0)

    @property
    def device(self) -> int | None:
        """The device whose time the parts are, the busiest; None without one."""
        busiest = max(self.analysis.activity, key=lambda each: each.busy, default=None)
        return busiest.device if busiest else None

    @property
    def lists_all_gaps(self) -> bool:
        """Whether every gap of the device is listed, rather than the longest ``MOST``."""
        return sum(gap.device == self.device for gap in self.analysis.gaps) < MOST

    def gaps(self, cause: GapCause) -> list[Gap]:
        """Listed idle stretches of the device, of that cause, inside the steady steps, longest
        first."""
        return [
            gap
            for gap in self.analysis.gaps
            if gap.cause is cause and gap.device == self.device and self.step_at(gap.start)
        ]

    def names_within(self) -> frozenset[str]:
        """Names of everything that begins inside the steady steps."""
        trace = self.analysis.trace
        within = np.unique(trace.name[inside(trace.start, self)])
        return frozenset(trace.names[index] for index in within.tolist())

    def step_at(self, time: int) -> Step | None:
        """The steady step (or the whole trace) that ``time`` falls in."""
        steps = (budget.step for budget in self.budgets)
        return next((step for step in steps if step.start <= time < step.end), None)


def trace_facts(analysis: TraceAnalysis) -> TraceFacts | None:
    """Facts of ``analysis``; None where it holds no time at all."""
    budgets = analysis.budgets
    marked = bool(analysis.steps)
    if marked:
        durations = np.array([budget.step.duration for budget in budgets], dtype=np.int64)
        budgets = budgets[warm_up_length(durations) if len(budgets) > 1 else 0 :]
    names = list(dict.fromkeys(name for budget in budgets for name, _ in budget.parts))
    totals = [sum(dict(budget.parts).get(name, 0) for budget in budgets) for name in names]
    step_ns, means = exact_means(totals, len(budgets))
    if not step_ns:
        return None
    parts = tuple(zip(names, means, strict=True))
    return TraceFacts(analysis, budgets, len(budgets) if marked else 0, step_ns, parts)


def inside(times: Int64, facts: TraceFacts) -> Mask:
    """Which of ``times``, ns, fall inside the steady steps (or the whole trace)."""
    start = np.array([budget.step.start for budget in facts.budgets], dtype=np.int64)
    end = np.array([budget.step.end for budget in facts.budgets], dtype=np.int64)
    return union(start, end).holds(times)
