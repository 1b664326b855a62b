"""The breakdown of a step into parts, of a run or of a trace, in one form for drawing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui.facts.step.steps import StepBreakdown
    from perftui.facts.step.trace_steps import TraceSteps


@dataclass(frozen=True)
class Part:
    """One exclusive part of a step; ``style`` is one of ``rows.PART_STYLES``."""

    name: str
    ns: int
    style: str


@dataclass(frozen=True)
class DrawnStep:
    """The mean step as it is drawn."""

    mean: StepBreakdown
    basis: str
    """The steps it rests on, in words."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts of the step by the names and styles they are drawn with."""
        return tuple(
            Part(self.mean.shown(name), ns, name if self.mean.of_run else style_of(name))
            for name, ns in self.mean.parts
        )

    @property
    def is_step(self) -> bool:
        """False for a trace that marks no steps: then it is all of the trace."""
        return self.mean.of_run or self.mean.count > 0


SHORT_NAMES = {
    "data loader wait": ("loader wait", "wait"),
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
    "cpu operators": ("cpu ops",),
    "compilation": ("compile",),
    "initialisation": ("init",),
    "queue wait": ("queue",),
}
"""Shorter names, the longest first: a name that is cut cannot be understood."""


def name_within(name: str, room: int) -> str:
    """``name``, or a shorter word for it, in at most ``room`` cells; empty where none fits."""
    return next((word for word in (name, *SHORT_NAMES.get(name, ())) if len(word) <= room), "")


TRACE_STYLES = {
    "gpu compute": "compute",
    "exposed communication": "communication",
    "exposed copies": "copies",
    "data loader wait": "idle",
    "input_wait": "input_wait",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "profiler": "profiler",
    "synchronisation": "backward",
    "launch-bound": "loader_start",
    "python": "optimizer",
}


def style_of(name: str) -> str:
    """The style of a part of a trace."""
    return TRACE_STYLES.get(name, "other")


def of_trace(steps: TraceSteps | None) -> DrawnStep | None:
    """The mean of the steps that findings are about; None where there is no time at all."""
    return DrawnStep(steps.breakdown, _basis(steps)) if steps else None


def _basis(steps: TraceSteps) -> str:
    marked = len(steps.analysis.steps)
    if not marked:
        return "no steps marked in it"
    from perftui.analysis.steps import step_source

    source = step_source(steps.analysis.trace, steps.analysis.steps)
    where = f"derived from the {source}" if source else "in the trace"
    if steps.steps < marked:
        return f"{steps.steps} steady of {marked} steps {where}"
    return "the one step in the trace" if marked == 1 else f"{marked} steps {where}"
