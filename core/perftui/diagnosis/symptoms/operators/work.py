"""Shared by rules about kernels and operators: the work they judge, and its loss."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perftui.analysis.model import GapCause
from perftui.analysis.steps import COMPUTE, OPERATORS, OTHER
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, more_profiled
from perftui.facts.cpu.operators import (
    FULLY_BUSY,
    Operators,
    StepTime,
    Work,
    in_step,
    judged_operators,
)
from perftui.facts.fact import Fact, Facts, NotApplicableError
from perftui.facts.gpu.idle import device_steps, source_line
from perftui.facts.gpu.kernels import StepKernels, step_kernels
from perftui.facts.source.lines import LinesByTime, LineShare
from perftui.facts.source.operator_lines import at, line_of, line_place, operator_lines, with_line
from perftui.facts.step.judged_step import JudgedStep, judged_step
from perftui.facts.step.steps import StepBreakdown
from perftui.facts.step.trace_steps import INCOMPLETE, TraceSteps, missing

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
        return self.within(round(ns * min(busy / FULLY_BUSY, 1.0)))

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
    """The work judged by rules about kernels. Not applicable if the training has no GPU. Unknown if
    no trace shows its kernels."""
    steps = device_steps(facts)
    later = from_first_kernel(steps) if facts.run is None else None
    return KernelWork(facts, step_kernels(facts), later or judged_step(facts).of)


@dataclass(frozen=True, eq=False)
class OperatorWork:
    """Operators in the mean step, on the CPU or with what they launch on the GPU."""

    facts: Facts
    operators: Operators
    judged: JudgedStep

    @property
    def of(self) -> StepBreakdown:
        """The mean step."""
        return self.judged.of

    @property
    def on_device(self) -> bool:
        """Whether a GPU computes."""
        return self.judged.on_device

    def time_of(self, work: Work) -> StepTime:
        """Time of the step in operators that do ``work`` in the trace."""
        return in_step(self.operators, self.judged, work)

    def line_of(self, phase: str, pattern: str = "", *, only: bool = False) -> LineShare | None:
        """The line of ``phase`` as ``line_of`` finds it; where a GPU computes, samples outside the
        marked phases show waiting, so there only a line whose text matches ``pattern``."""
        if not self.on_device or phase not in (OPERATORS, OTHER):
            return line_of(self.facts, phase, pattern, only=only)
        return line_of(self.facts, phase, pattern, only=True) if pattern else None

    def stack_line(self, row: int) -> LineShare | None:
        """The user's line around a row of the trace, if stacks were recorded."""
        file, line = source_line(self.operators.trace, row)
        return LineShare(file, line, held=1) if file and line else None

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
        time, line = self.time_of(work), line or self.stack_line(work.row)
        sentence = sentence.replace("{part}", self.of.part_of(time.ns))
        sentence = sentence.replace("{at}", at(line)).replace("{calls}", str(work.calls))
        return Lost(
            int(time.won * saved),
            self.of,
            sentence,
            figures,
            place=line_place(self.facts, line, operator),
            parts=time.parts,
            share=time.won / self.of.mean,
            unproven=unproven or more_profiled(self.facts),
            label=label,
        )


def operator_work(facts: Facts, *, whole: bool = False) -> OperatorWork:
    """The work judged by rules about operators; with ``whole`` also that of a trace alone without
    known steps. Not applicable if nothing shows its operators. Unknown if nothing shows what
    launched the kernels of its GPU."""
    return OperatorWork(facts, *judged_operators(facts, whole=whole))


def cpu_work(facts: Facts) -> OperatorWork:
    """``operator_work`` for rules that only know the CPU; not applicable where a GPU computes."""
    judged = judged_step.or_none(facts)
    if judged is not None and judged.on_device:
        raise NotApplicableError
    return operator_work(facts)


def listed(kernels: StepKernels) -> tuple[Figure, ...]:
    """The longest kernels, as figures."""
    return tuple(Figure(name, ns, "ns", place=place) for name, ns, place in kernels.longest)


def from_first_kernel(steps: TraceSteps) -> StepBreakdown | None:
    """The mean of ``steps`` without device work that the trace lacks; None unless it is only
    missing at the beginning."""
    lacks = missing(steps.analysis)
    if lacks.lost >= INCOMPLETE * max(lacks.launches, 1) or lacks.ahead_share < INCOMPLETE:
        return None
    of, queued = steps.breakdown, GapCause.QUEUED.value
    ahead = min(lacks.ahead // max(steps.steps, 1), of.part(queued))
    parts = tuple((name, ns - ahead * (name == queued)) for name, ns in of.parts)
    return replace(of, mean=of.mean - ahead, parts=parts)
