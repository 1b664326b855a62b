"""Shared by rules about kernels and operators: the work they judge, and its loss."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perftui.analysis.model import GapCause
from perftui.analysis.steps import COMPUTE
from perftui.diagnosis.ladder import COMPUTE_BOUND_SHARE
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost
from perftui.facts.cpu.operators import Operators, StepTime, Work, cpu_operators, in_step
from perftui.facts.fact import Fact, Facts
from perftui.facts.gpu.idle import device_steps
from perftui.facts.gpu.kernels import StepKernels, step_kernels
from perftui.facts.source.lines import LinesByTime, LineShare
from perftui.facts.source.operator_lines import at, line_place, operator_lines, with_line
from perftui.facts.step.judged_step import JudgedStep, judged_step
from perftui.facts.step.steps import StepBreakdown
from perftui.facts.step.trace_steps import INCOMPLETE, TraceSteps, missing
from perftui.trace.model import Int64

PARTS = (COMPUTE,)
"""Parts of the step that contain kernels."""


@dataclass(frozen=True)
class KernelWork:
    """The device's computing in the mean step."""

    facts: Facts
    kernels: StepKernels
    of: StepBreakdown

    def of_step(self, ns: int) -> str:
        """``ns`` of such work as part of the step or of the trace, for a sentence."""
        return self.of.part_of(self.within(ns))

    def within(self, ns: int) -> int:
        """``ns``, at most the step: cut on the host's clock, the device may take longer."""
        return min(ns, self.of.mean)

    def won(self, ns: float) -> int:
        """Gain of a step with that much less device time: all of it if the device is mostly busy,
        less if it waits for the host in any case."""
        busy = self.kernels.time / self.of.mean
        return self.within(round(ns * min(busy / COMPUTE_BOUND_SHARE, 1.0)))

    def lost(
        self,
        kernels: StepKernels,
        saved: float,
        sentence: str,
        *figures: Figure,
        lines: Fact[LinesByTime | None] = operator_lines,
        share: float | None = None,
        unproven: str = "",
    ) -> Lost:
        """The loss of ``kernels`` if ``saved`` ns of them would be gained, with figures of the
        longest ones, and their place, else the longest of ``lines``."""
        return Lost(
            self.won(saved),
            self.of,
            sentence,
            (*figures, *listed(kernels), self.steps),
            with_line(self.facts, kernels.place, lines.or_none(self.facts)),
            PARTS,
            share=share,
            unproven=unproven,
        )

    @property
    def steps(self) -> Figure:
        """Number of steps behind a finding."""
        return Figure("steady steps", self.of.count, "count")


def kernel_work(facts: Facts) -> KernelWork:
    """The work judged by rules about kernels.

    Raises:
        NotApplicableError: the training has no GPU.
        UnknownError: no trace shows its kernels.
    """
    steps = device_steps(facts)
    later = from_first_kernel(steps) if facts.run is None else None
    return KernelWork(facts, step_kernels(facts), later or judged_step(facts).of)


@dataclass(frozen=True, eq=False)
class CpuWork:
    """Operators in the mean step of a training that computes on the CPU."""

    facts: Facts
    operators: Operators
    judged: JudgedStep

    @property
    def of(self) -> StepBreakdown:
        """The mean step."""
        return self.judged.of

    def time_of(self, by_phase: Int64) -> StepTime:
        """Time of the step in operators that take ``by_phase`` ns in the trace."""
        return in_step(self.operators, self.judged, by_phase)

    def lost(
        self,
        work: Work,
        line: LineShare | None,
        sentence: str,
        label: str,
        *figures: Figure,
        operator: str | None = None,
        saved: float = 1,
        unproven: str = "",
    ) -> Lost:
        """The loss of ``work`` if a share ``saved`` of it would be gained. The sentence has
        ``{part}`` for the part of the step, ``{at}`` for the line, and maybe ``{calls}`` for their
        number."""
        time = self.time_of(work.by_phase)
        sentence = sentence.replace("{part}", self.of.part_of(time.ns))
        sentence = sentence.replace("{at}", at(line)).replace("{calls}", str(work.calls))
        return Lost(
            int(time.ns * saved),
            self.of,
            sentence,
            figures,
            place=line_place(self.facts, line, operator),
            parts=time.parts,
            share=time.ns / self.of.mean,
            unproven=unproven,
            label=label,
        )


def cpu_work(facts: Facts) -> CpuWork:
    """The work judged by rules about operators.

    Raises:
        NotApplicableError: it computes on a GPU, or nothing shows its operators.
    """
    return CpuWork(facts, *cpu_operators(facts))


def listed(kernels: StepKernels) -> tuple[Figure, ...]:
    """The longest kernels, as figures."""
    return tuple(Figure(name, ns, "ns", place=place) for name, ns, place in kernels.longest)


def from_first_kernel(steps: TraceSteps) -> StepBreakdown | None:
    """The mean of ``steps`` without device work that the trace lacks; None unless it is only
    missing at the beginning."""
    lacks = missing(steps.analysis)
    if not lacks.only_ahead or lacks.ahead_share < INCOMPLETE:
        return None
    of, queued = steps.breakdown, GapCause.QUEUED.value
    ahead = min(lacks.ahead // max(steps.steps, 1), of.part(queued))
    parts = tuple((name, ns - ahead * (name == queued)) for name, ns in of.parts)
    return replace(of, mean=of.mean - ahead, parts=parts)
