"""What rules about kernels and operators share: the step they speak of, and what they report."""

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
"""Parts of the step that kernels are in."""


@dataclass(frozen=True)
class KernelWork:
    """What the device computes for the mean step."""

    facts: Facts
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

    def lost(
        self,
        found: StepKernels,
        saved: float,
        sentence: str,
        *figures: Figure,
        lines: Fact[LinesByTime | None] = operator_lines,
        share: float | None = None,
        unproven: str = "",
    ) -> Lost:
        """``found`` as lost, as far as ``saved`` ns of it would be won; the longest of them are
        listed, and the place is theirs, or the longest of ``lines``."""
        return Lost(
            self.won(saved),
            self.of,
            sentence,
            (*figures, *listed(found), self.steps),
            with_line(self.facts, found.place, lines.or_none(self.facts)),
            PARTS,
            share=share,
            unproven=unproven,
        )

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
    return KernelWork(facts, step_kernels(facts), begun or judged_step(facts).of)


@dataclass(frozen=True, eq=False)
class CpuWork:
    """What operators do in the mean step of a training that computes on the CPU."""

    facts: Facts
    operators: Operators
    judged: JudgedStep

    @property
    def of(self) -> StepBreakdown:
        """The mean step."""
        return self.judged.of

    def time_of(self, by_phase: Int64) -> StepTime:
        """What the step spends in operators that take so long in each phase of the trace."""
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
        """``work`` as lost, as far as a share ``saved`` of it would be won. The sentence says
        ``{part}`` of the step and ``{at}`` the line, and may say how many ``{calls}`` it has."""
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
    """The work that rules about operators judge.

    Raises:
        NotApplicableError: it computes on a GPU, or nothing shows its operators.
    """
    return CpuWork(facts, *cpu_operators(facts))


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
