"""The breakdown of a step into parts, of a run or of a trace, in one form for drawing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui.diagnosis.trace_facts import TraceFacts
    from perftui.run.step_budget import StepShare


@dataclass(frozen=True)
class Part:
    """One exclusive part of a step; ``style`` is one of ``rows.PART_STYLES``."""

    name: str
    ns: int
    style: str


@dataclass(frozen=True)
class StepBreakdown:
    """The mean of ``count`` steps; ``parts`` sum to ``mean`` exactly, all in ns."""

    parts: tuple[Part, ...]
    mean: int
    p50: int
    p95: int
    count: int
    basis: str
    """Which steps it is the mean of, as text."""
    is_step: bool = True
    """False for a trace that marks no steps: then it is that of the whole trace."""

    @property
    def steps_per_second(self) -> float:
        """Throughput."""
        return 1e9 / self.mean if self.mean else 0.0


NAMES = {"input_wait": "data wait", "loader_start": "loader start", "profiler": "perftui"}
"""Phases of a run that a person calls otherwise."""

SHORT_NAMES = {
    "data wait": ("wait",),
    "input wait": ("wait",),
    "loader start": ("loader",),
    "forward": ("fwd",),
    "backward": ("bwd",),
    "optimizer": ("optim", "opt"),
    "operators": ("ops",),
    "gpu compute": ("compute", "gpu"),
    "exposed communication": ("communication", "comm"),
    "exposed copies": ("copies", "copy"),
    "synchronisation": ("sync",),
    "launch-bound": ("launch",),
    "allocation": ("alloc",),
}
"""Shorter names, the longest first: a name that is cut cannot be understood."""


def name_within(name: str, room: int) -> str:
    """``name``, or a shorter word for it, in at most ``room`` cells; empty where none fits."""
    return next((each for each in (name, *SHORT_NAMES.get(name, ())) if len(each) <= room), "")


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


def of_run(share: StepShare, basis: str) -> StepBreakdown:
    """The mean of the steady steps of a run."""
    parts = tuple(Part(NAMES.get(name, name), ns, name) for name, ns in share.parts)
    return StepBreakdown(parts, share.mean, share.p50, share.p95, share.count, basis)


def of_trace(facts: TraceFacts | None) -> StepBreakdown | None:
    """The mean of the steps that findings are about; None where there is no time at all."""
    import numpy as np

    from perftui.run.step_budget import nearest_rank

    if facts is None:
        return None
    durations = np.array([budget.step.duration for budget in facts.budgets], dtype=np.int64)
    ordered = np.sort(durations)
    parts = tuple(
        Part(NAMES.get(name, name), ns, TRACE_STYLES.get(name, "other")) for name, ns in facts.parts
    )
    p50, p95 = nearest_rank(ordered, 50), nearest_rank(ordered, 95)
    count = len(facts.budgets)
    return StepBreakdown(
        parts, facts.step_ns, p50, p95, count, _basis(facts), is_step=bool(facts.steps)
    )


def _basis(facts: TraceFacts) -> str:
    marked = len(facts.analysis.steps)
    if not marked:
        return "no steps marked in it"
    if facts.steps < marked:
        return f"{facts.steps} steady of {marked} steps in the trace"
    return "the one step in the trace" if marked == 1 else f"{marked} steps in the trace"
