"""The mean step that a verdict rests on, split into what computes and what does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.model import GapCause
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION, OPERATORS, OTHER
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.source.lines import is_without_steps, stack_samples
from perftui.facts.step.phase_shares import host_phases, phase_shares, unmarked_operators
from perftui.facts.step.step_breakdown import StepBreakdown
from perftui.facts.step.steps import LONG_RUN_NS, steady_step, step_breakdown
from perftui.facts.step.trace_complete import complete, drives_device, no_kernels
from perftui.facts.step.trace_steps import TraceSteps, trace_steps
from perftui.facts.step.unprofiled import unprofiled
from perftui.run.columns import BACKWARD, COLLATE, FETCH, FORWARD, OPTIMIZER

MUCH_IDLE = 0.1
"""Share of the step from which on idle time is the question, and has to be known."""

PYTHON_IN = "python in "
"""Before the name of a phase: its time outside operators."""

STAGES = {
    "input_wait": (FETCH, COLLATE),
    "forward": (FORWARD,),
    "backward": (BACKWARD,),
    "optimizer": (OPTIMIZER,),
}
"""Stages of stack samples that belong to a phase."""

READING = "reading values"
"""Operators on the CPU that wait for a device of which nothing was recorded."""

LOSS = "loss"
"""Operators that the script calls between forward and backward."""

HOST_AT_WORK = (
    GapCause.PYTHON.value,
    GapCause.CPU_OPERATORS.value,
    GapCause.COMPILATION.value,
    GapCause.INITIALISATION.value,
    GapCause.LAUNCH.value,
    GapCause.UNEXPLAINED.value,
    OTHER,
)
"""Parts in which the device idles while the host does something of its own, whatever it is: a pause
of the host shows in any of them."""

_COMPUTING = ("forward", "backward", "optimizer", OPERATORS)
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
    """Whether computing is distinguished from waiting: by kernels, or by operators on the CPU."""

    @property
    def computing(self) -> int:
        """Time of the parts that compute, ns."""
        return sum(part.ns for part in self.parts if part.computes)

    @property
    def hides_forward(self) -> bool:
        """Whether the script's own code holds the forward pass, of which nothing shows how long it
        is: no module is called, and no window shows the operators."""
        of = self.of
        return not self.sees_operators and bool(of.part(BACKWARD)) and not of.part(FORWARD)

    def part(self, name: str) -> int:
        """Time of the part of that name, ns; 0 where there is none."""
        return next((part.ns for part in self.parts if part.name == name), 0)

    def names(self, *, computes: bool) -> tuple[str, ...]:
        """Names of the parts that compute, or of those that do not."""
        return tuple(part.name for part in self.parts if part.computes == computes)


@fact
def judged_step(facts: Facts) -> JudgedStep:
    """The step of the run, split as in its newest window; of a trace alone the trace's.

    Raises:
        UnknownError: there are too few steps, or nothing shows where their time goes, or what the
            device did is not all in the trace.
    """
    trace = trace_steps.or_none(facts)
    if trace is not None and trace.has_gpu:
        idle = sum(ns for name, ns in trace.breakdown.parts if name in set(GapCause))
        if idle >= MUCH_IDLE * trace.step_ns:
            complete(trace.analysis)
        return _of_device(facts, trace)
    if facts.run is None:
        if trace is None:
            raise UnknownError("nothing has been recorded")
        if drives_device(trace.analysis):
            raise UnknownError(no_kernels(trace.analysis))
        if trace.breakdown.part(OTHER) == trace.step_ns and phase_shares.or_none(facts) is None:
            raise UnknownError("the trace shows neither operators nor phases of a training")
        return _of_thread(facts, trace.breakdown)
    try:
        step = steady_step(facts)
    except UnknownError:
        sampled = _of_samples(facts)
        if sampled is None:
            raise
        return sampled
    return _of_thread(facts, step)


def _of_samples(facts: Facts) -> JudgedStep | None:
    """All of a run that has ended without steps, split by what samples of its stack found."""
    outside, _ = stack_samples(facts)
    if not len(outside) or "stage" not in outside or not is_without_steps(facts):
        return None
    held, stage = outside["held"], outside["stage"]
    whole = int(held.sum())
    if whole < LONG_RUN_NS:
        return None
    parts = {name: int(held[np.isin(stage, names)].sum()) for name, names in STAGES.items()}
    parts["other"] = whole - sum(parts.values())
    found = tuple((name, ns) for name, ns in parts.items() if ns)
    step = StepBreakdown(0, whole, found, whole, whole, whole, usual=whole, of_run=False)
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
    """Each phase split into computing, what is left of it, and collectives, which are one part."""
    shares = phase_shares.or_none(facts)
    parts: list[Part] = []
    waiting = reading = 0
    for name, whole in step.parts:
        ns = whole
        if shares is not None and name == OTHER and step.of_run:
            unmarked = round(ns * unmarked_operators(shares))
            parts.append(Part(OPERATORS, unmarked, True))
            ns -= unmarked
        found = shares.get(name) if shares is not None else None
        if found is None:
            parts.append(Part(name, ns, name in _COMPUTING))
            continue
        in_collectives = round(ns * found.communicating)
        in_reads = min(round(ns * found.reading), ns - in_collectives)
        waiting, reading = waiting + in_collectives, reading + in_reads
        ns -= in_reads
        if name not in _COMPUTING:
            loss = min(round((ns + in_reads) * found.loss), ns - in_collectives)
            parts += [Part(LOSS, loss, True), Part(name, ns - in_collectives - loss, False)]
            continue
        computing = min(round((ns + in_reads) * found.computing), ns - in_collectives)
        rest = ns - in_collectives - computing
        parts += [Part(name, computing, True), Part(f"{PYTHON_IN}{name}", rest, False)]
    parts.append(Part(EXPOSED_COMMUNICATION, waiting, computes=False))
    parts.append(Part(READING, reading, computes=False))
    chosen = tuple(part for part in parts if part.ns)
    return JudgedStep(step, chosen, on_device=False, sees_operators=shares is not None)
