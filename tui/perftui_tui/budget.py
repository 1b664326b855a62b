"""The budget of one step, from a run's journal or from a trace, in one form for drawing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui.facts.step_breakdown import StepBreakdown
    from perftui.facts.trace_steps import TraceSteps


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
"""Shorter words for names, the longest first: a name that is cut says nothing."""


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


def of_run(share: StepBreakdown, basis: str) -> Budget:
    """The budget of the steady steps of a run."""
    parts = tuple(Part(NAMES.get(name, name), ns, name) for name, ns in share.parts)
    return Budget(parts, share.mean, share.p50, share.p95, share.count, basis)


def of_trace(found: TraceSteps | None) -> Budget | None:
    """The mean budget of the steps that findings speak of; None where there is no time at all."""
    if found is None:
        return None
    mean = found.breakdown
    parts = tuple(
        Part(NAMES.get(name, name), ns, TRACE_STYLES.get(name, "other")) for name, ns in mean.parts
    )
    count = len(found.each)
    is_step = bool(mean.count)
    return Budget(parts, mean.mean, mean.p50, mean.p95, count, _basis(found), is_step=is_step)


def _basis(found: TraceSteps) -> str:
    marked = len(found.analysis.steps)
    if not marked:
        return "no steps marked in it"
    if found.steps < marked:
        return f"{found.steps} steady of {marked} steps in the trace"
    return "the one step in the trace" if marked == 1 else f"{marked} steps in the trace"
