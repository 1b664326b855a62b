"""The mean step that a verdict rests on, split into what computes and what does not."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.analysis.steps.parts import COMPUTE
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.operator_share import host_phases, operator_share
from perftui.facts.step_breakdown import StepBreakdown
from perftui.facts.steps import steady_step, step_breakdown
from perftui.facts.trace_complete import complete
from perftui.facts.trace_steps import TraceSteps, trace_steps
from perftui.facts.unprofiled import unprofiled

PYTHON_IN = "python in "
"""Before the name of a phase: its time outside operators."""

_COMPUTING = ("forward", "backward", "optimizer", "operators")
"""Phases of the training thread whose operators are the training's own work."""


@dataclass(frozen=True)
class Part:
    """One exclusive part of the mean step, ns; ``computes`` where it is the training's own work."""

    name: str
    ns: int
    computes: bool


@dataclass(frozen=True)
class JudgedStep:
    """Parts that sum to ``of.mean`` exactly."""

    of: StepBreakdown
    """The mean step: the run's where there is one, else the trace's."""
    parts: tuple[Part, ...]
    on_device: bool
    """Parts of the GPU's time, else of the training thread's."""
    sees_operators: bool
    """Whether computing is told from waiting: by kernels, or by operators on the CPU."""

    @property
    def computing(self) -> int:
        """Time of the parts that compute, ns."""
        return sum(part.ns for part in self.parts if part.computes)

    def part(self, name: str) -> int:
        """Time of the part of that name, ns; 0 where there is none."""
        return next((part.ns for part in self.parts if part.name == name), 0)


@fact
def judged_step(facts: Facts) -> JudgedStep:
    """The step of the run, split as its newest window tells; of a trace alone the trace's.

    Raises:
        UnknownError: there are too few steps, or nothing shows where their time goes, or what the
            device did is not all in the trace.
    """
    trace = trace_steps.or_none(facts)
    if trace is not None and trace.has_gpu:
        complete(trace.analysis)
        return _of_device(facts, trace)
    if facts.run is None:
        if trace is None:
            raise UnknownError("nothing has been recorded")
        return _of_thread(facts, trace.breakdown)
    step = steady_step(facts)
    return _of_thread(facts, step)


def _of_device(facts: Facts, trace: TraceSteps) -> JudgedStep:
    of_run = step_breakdown(facts) if facts.run else None
    if of_run is None or not of_run.mean:
        found, parts = trace.breakdown, dict(trace.breakdown.parts)
    else:
        found = of_run
        parts = unprofiled(trace.breakdown, of_run, host_phases.or_none(facts))
    ordered = tuple(Part(name, ns, name == COMPUTE) for name, ns in parts.items())
    return JudgedStep(found, ordered, on_device=True, sees_operators=True)


def _of_thread(facts: Facts, step: StepBreakdown) -> JudgedStep:
    shares = operator_share.or_none(facts)
    parts: list[Part] = []
    for name, ns in step.parts:
        if name not in _COMPUTING or shares is None:
            parts.append(Part(name, ns, name in _COMPUTING))
            continue
        computing = round(ns * min(shares.get(name, 1.0), 1.0))
        parts += [Part(name, computing, True), Part(f"{PYTHON_IN}{name}", ns - computing, False)]
    chosen = tuple(part for part in parts if part.ns)
    return JudgedStep(step, chosen, on_device=False, sees_operators=shares is not None)
