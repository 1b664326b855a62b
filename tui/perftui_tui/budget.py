"""The budget of one step, from a run's journal or from a trace, in one form for drawing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui.analysis.model import TraceAnalysis
    from perftui.run.step_budget import StepShare


@dataclass(frozen=True)
class Part:
    """One exclusive part of a step; ``style`` is one of ``rows.PART_STYLES``."""

    name: str
    ns: int
    style: str


@dataclass(frozen=True)
class Budget:
    """The mean of ``count`` steps; ``parts`` sum to ``mean`` exactly, all in ns."""

    parts: tuple[Part, ...]
    mean: int
    p50: int
    p95: int
    count: int
    basis: str
    """Which steps it rests on, in words."""
    is_step: bool = True
    """False for a trace that marks no steps: then it is that of the whole trace."""

    @property
    def steps_per_second(self) -> float:
        """Throughput."""
        return 1e9 / self.mean if self.mean else 0.0


NAMES = {"input_wait": "data wait", "loader_start": "loader start", "profiler": "perftui"}
"""Phases of a run that a person calls otherwise."""

TRACE_STYLES = {
    "gpu compute": "compute",
    "exposed communication": "communication",
    "exposed copies": "copies",
    "input wait": "idle",
    "input_wait": "input_wait",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "profiler": "profiler",
    "synchronisation": "backward",
    "launch-bound": "loader_start",
    "python": "optimizer",
}


def of_run(share: StepShare, basis: str) -> Budget:
    """The budget of the steady steps of a run."""
    parts = tuple(Part(NAMES.get(name, name), ns, name) for name, ns in share.parts)
    return Budget(parts, share.mean, share.p50, share.p95, share.count, basis)


def of_trace(analysis: TraceAnalysis) -> Budget | None:
    """The mean budget of the steps in a trace; None where it holds none."""
    import numpy as np

    from perftui.run.step_budget import exact_means, nearest_rank

    budgets = analysis.budgets
    if not budgets:
        return None
    names = list(dict.fromkeys(name for budget in budgets for name, _ in budget.parts))
    totals = [sum(dict(budget.parts).get(name, 0) for budget in budgets) for name in names]
    mean, means = exact_means(totals, len(budgets))
    ordered = np.sort(np.array([budget.step.duration for budget in budgets], dtype=np.int64))
    parts = tuple(
        Part(NAMES.get(name, name), ns, TRACE_STYLES.get(name, "other"))
        for name, ns in zip(names, means, strict=True)
    )
    whole = budgets[0].step.index < 0
    basis = "no steps marked in it" if whole else f"{len(budgets)} steps in the trace"
    if len(budgets) == 1 and not whole:
        basis = "the one step in the trace"
    p50, p95 = nearest_rank(ordered, 50), nearest_rank(ordered, 95)
    return Budget(parts, mean, p50, p95, len(budgets), basis, is_step=not whole)
