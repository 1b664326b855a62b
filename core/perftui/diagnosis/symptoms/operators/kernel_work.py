"""What rules about kernels share: the step they speak of, and how they make a finding."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perftui.analysis.model import GapCause
from perftui.analysis.steps import COMPUTE
from perftui.diagnosis.ladder import COMPUTE_BOUND_SHARE
from perftui.diagnosis.model import Figure
from perftui.facts.fact import Facts
from perftui.facts.gpu.gpu import device_steps
from perftui.facts.gpu.kernels import StepKernels, step_kernels
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.steps import StepBreakdown
from perftui.facts.step.trace_steps import INCOMPLETE, TraceSteps, missing

PARTS = (COMPUTE,)
"""Parts of the step that kernels are in."""


@dataclass(frozen=True)
class KernelWork:
    """What the device computes for the mean step."""

    kernels: StepKernels
    of: StepBreakdown

    def of_step(self, ns: int) -> str:
        """``ns`` of such work as part of the step or of the trace, for a sentence."""
        return self.of.part_of(self.within(ns))

    def within(self, ns: int) -> int:
        """No more than the step: where it is cut on the host's clock the device may take longer."""
        return min(ns, self.of.mean)

    def won(self, ns: float) -> int:
        """What the step gains of such a time less on the device: all of it where that is busy most
        of the time, less where it waits for the host in any case."""
        busy = self.kernels.time / self.of.mean
        return self.within(round(ns * min(busy / COMPUTE_BOUND_SHARE, 1.0)))

    @property
    def steps(self) -> Figure:
        """How many steps a finding rests on."""
        return Figure("steady steps", self.of.count, "count")


def kernel_work(facts: Facts) -> KernelWork:
    """The work that rules about kernels judge.

    Raises:
        NotApplicableError: the training has no GPU.
        UnknownError: no trace shows its kernels.
    """
    steps = device_steps(facts)
    begun = from_first_kernel(steps) if facts.run is None else None
    return KernelWork(step_kernels(facts), begun or judged_step(facts).of)


def listed(kernels: StepKernels) -> tuple[Figure, ...]:
    """The longest of them, as figures."""
    return tuple(Figure(name, ns, "ns", place=place) for name, ns, place in kernels.longest)


def from_first_kernel(steps: TraceSteps) -> StepBreakdown | None:
    """The mean of ``steps`` without the time in which the device did what the trace does not hold;
    None where nothing is missing at its beginning, or more than that."""
    lacks = missing(steps.analysis)
    if not lacks.only_ahead or lacks.ahead_share < INCOMPLETE:
        return None
    of, queued = steps.breakdown, GapCause.QUEUED.value
    ahead = min(lacks.ahead // max(steps.steps, 1), of.part(queued))
    parts = tuple((name, ns - ahead * (name == queued)) for name, ns in of.parts)
    return replace(of, mean=of.mean - ahead, parts=parts)
